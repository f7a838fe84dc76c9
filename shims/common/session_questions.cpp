#include "common/glibc_floor.h"

// What is asked of the command line: about a kernel that is new, its image, an NVTX range. Each once.
#include "common/hash.h"
#include "common/process_capture.h"
#include "common/socket.h"
#include "common/text.h"

namespace kerncap {
namespace {

uint32_t number_of(const json::Value& value) {
  return value.number > 0 && value.number < UINT32_MAX ? static_cast<uint32_t>(value.number) : 0;
}

}  // namespace

void ProcessCapture::meet(Kernel& kernel) {
  if (is_owned(kernel)) {
    kernel.interest.store(Interest::owned, std::memory_order_release);
    return;
  }
  std::lock_guard<std::mutex> lock(asking_);
  if (!open() || selection.is_known(kernel)) return;
  if (const char* reason = selection.closed()) {
    selection.answered(kernel, {false, reason});
    return;
  }
  Answer answer = ask_about(kernel);
  selection.answered(kernel, answer);
  if (!selection.is_untold(kernel)) return;
  const Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  json::Writer json;
  json.begin_object().field(key::kernel, without_parameters(kernel.demangled));
  json.field(key::qualified_name, kernel.demangled)
      .field(key::mangled, kernel.name)
      .field(key::mode, word::mode::native);
  json.field(key::source_known, answer.reason != word::filter::no_source)
      .field(key::image_kind, kind_of(image))
      .end();
  session.write(KERNCAP_RECORD_SEEN, json);
}

Answer ProcessCapture::ask_about(const Kernel& kernel) {
  json::Writer question = session.question();
  question.field(key::ask, word::ask::match)
      .field(key::kernel, kernel.name)
      .field(key::demangled, kernel.demangled);
  question.key(key::image);
  write_image(question, kernel);
  question.field(key::generation, conf().generation).end();
  Answer answer;
  json::Value reply;
  if (!ask(conf().asked_at(), question.text(), &reply)) {
    answer.reason = word::filter::no_answer;
    return answer;
  }
  const json::Value* match = reply.find(key::match);
  const json::Value* reason = reply.find(key::reason);
  answer.match = match != nullptr && match->truth;
  if (reason != nullptr) answer.reason = reason->text;
  for (auto [name, flag] : {std::pair(key::starts, &answer.starts), std::pair(key::ends, &answer.ends)})
    if (const json::Value* found = reply.find(name)) *flag = found->truth;
  if (match == nullptr && answer.reason.empty()) answer.reason = word::filter::no_answer;
  return answer;
}

ImageFacts ProcessCapture::facts_of(const Kernel& kernel, const std::string& arch) {
  Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  if (image == nullptr || store_image(*image) == nullptr) return {};
  std::lock_guard<std::mutex> lock(asking_);
  std::map<std::string, ImageFacts>& known = facts_[image];
  for (const std::string& name : {std::string(), kernel.name}) {
    auto found = known.find(name);
    if (found != known.end()) return found->second;
  }
  ImageFacts facts;
  if (ask_facts(kernel, arch, &facts)) known[facts.has_parameters ? kernel.name : std::string()] = facts;
  return facts;
}

bool ProcessCapture::ask_facts(const Kernel& kernel, const std::string& arch, ImageFacts* facts) {
  json::Writer question = session.question();
  question.field(key::ask, word::ask::globals).field(key::image, kernel.module->image->stored.load());
  question.field(key::kernel, kernel.name).field(key::arch, arch).end();
  json::Value reply;
  if (!ask(conf().asked_at(), question.text(), &reply)) return false;
  if (const json::Value* found = reply.find(key::globals))
    for (const json::Value& name : found->items) facts->globals.push_back(name.text);
  if (const json::Value* found = reply.find(key::statics))
    for (const json::Value& entry : found->items) {
      if (entry.items.size() != 3) continue;
      facts->statics.push_back({entry.items[0].text, number_of(entry.items[1]), number_of(entry.items[2])});
    }
  if (const json::Value* found = reply.find(key::refusal)) facts->refusal = found->text;
  const json::Value* parameters = reply.find(key::parameters);
  if (parameters == nullptr || parameters->kind != json::Value::Kind::array) return true;
  facts->has_parameters = true;
  for (const json::Value& pair : parameters->items) {
    if (pair.items.size() != 2) continue;
    facts->parameters.push_back({number_of(pair.items[0]), number_of(pair.items[1])});
  }
  return true;
}

bool ProcessCapture::may_wait(const Kernel& kernel, const std::string& arch) {
  Image* image = kernel.module != nullptr ? kernel.module->image : nullptr;
  if (image == nullptr || store_image(*image) == nullptr) return false;
  std::lock_guard<std::mutex> lock(asking_);
  auto known = may_wait_.find(&kernel);
  if (known != may_wait_.end()) return known->second;
  json::Writer question = session.question();
  question.field(key::ask, word::ask::waits).field(key::image, image->stored.load());
  question.field(key::kernel, kernel.name).field(key::arch, arch).end();
  json::Value reply;
  if (!ask(conf().asked_at(), question.text(), &reply)) return false;
  const json::Value* waits = reply.find(key::waits);
  return may_wait_[&kernel] = waits != nullptr && waits->truth;
}

const char* ProcessCapture::store_image(Image& image) {
  const char* stored = image.stored.load(std::memory_order_acquire);
  if (stored != nullptr || image.data == nullptr || image.size == 0) return stored;
  std::lock_guard<std::mutex> lock(asking_);
  if (image.stored.load() != nullptr) return image.stored.load();
  uint64_t hash = hash64(image.data, image.size);
  std::string name = std::string("code/") + kind_of(&image) + "-" + address_text(hash | 1ULL << 63).substr(2);
  if (!session.store(name, image.data, image.size)) return nullptr;
  image.stored.store(::strdup(name.c_str()), std::memory_order_release);
  return image.stored.load();
}

std::string ProcessCapture::program_of(Image& image) {
  std::lock_guard<std::mutex> lock(asking_);
  auto known = programs_.find(&image);
  if (known != programs_.end()) return known->second;
  std::string text = device()->program_of(image), name;
  if (!text.empty()) {
    name = "program-" + std::to_string(programs_.size()) + ".json";
    if (!session.store(name, reinterpret_cast<const uint8_t*>(text.data()), text.size())) name.clear();
  }
  programs_[&image] = name;
  return name;
}

bool ProcessCapture::wants_range(ranges::Path range) {
  return wants_range(ranges::text_of(range));
}

bool ProcessCapture::wants_range(const std::string& text) {
  std::lock_guard<std::mutex> lock(asking_);
  auto known = range_answers_.find(text);
  if (known != range_answers_.end()) return known->second;
  json::Writer question = session.question();
  question.field(key::ask, word::ask::range)
      .field(key::range, text)
      .field(key::generation, conf().generation)
      .end();
  json::Value reply;
  const json::Value* match =
      ask(conf().asked_at(), question.text(), &reply) ? reply.find(key::match) : nullptr;
  return range_answers_[text] = match != nullptr && match->truth;
}

}  // namespace kerncap
