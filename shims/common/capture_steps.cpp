#include "common/glibc_floor.h"

#include "common/capture_steps.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "common/clock.h"
#include "common/drain.h"
#include "common/gate.h"
#include "common/memory_room.h"
#include "common/peers.h"
#include "common/text.h"
#include "common/writer_pool.h"

namespace kerncap {
namespace {

// The post-state's file, opened when it is known how much may come.
class PostOutlet : public Outlet {
 public:
  PostOutlet(const Session& session, const std::string& name, SnapshotFilePtr* file)
      : session_(session), name_(name), file_(*file) {}

  SnapshotFile* open(uint64_t bound_bytes, std::string* why) override {
    uint64_t free = free_space(session_.folder());
    if (bound_bytes > free) {
      *why = "no space: its output needs up to " + size_text(bound_bytes) + ", " + session_.folder() +
             " has " + size_text(free);
      return nullptr;
    }
    file_ = std::make_unique<SnapshotFile>();
    if (file_->create(session_, name_, bound_bytes, why)) return file_.get();
    file_.reset();
    return nullptr;
  }

 private:
  const Session& session_;
  std::string name_;
  SnapshotFilePtr& file_;
};

}  // namespace

void RealLaunch::once() noexcept {
  if (made_) return;
  made_ = true;
  gate::Pass pass;  // another thread's capture may have begun
  uint64_t started = now_ns();
  status_ = call_(context_);
  call_ns_ = now_ns() - started;
}

Reporter::Reporter(ProcessCapture& process, int64_t launch, const std::string& kernel, uint64_t total)
    : process_(process), launch_(launch), kernel_(kernel), total_(total), next_ns_(now_ns() + second_ns) {}

void Reporter::done(uint64_t bytes) {
  done_ += bytes;
  if (now_ns() < next_ns_) return;
  next_ns_ = now_ns() + second_ns;
  json::Writer json;
  json.begin_object().field(key::launch, launch_).field(key::kernel, kernel_);
  json.field(key::done, done_).field(key::total, total_ < done_ ? done_ : total_).end();
  process_.session.write(KERNCAP_RECORD_PROGRESS, json);
}

LaunchCapture::LaunchCapture(ProcessCapture& process, Device& device, const Launch& launch, RealLaunch& real,
                             Wanted&& wanted) noexcept
    : process_(process),
      device_(device),
      conf_(process.conf()),
      launch_(launch),
      real_(real),
      wanted_(std::move(wanted)) {
  wanted.kernel = nullptr;
}

LaunchCapture::~LaunchCapture() {
  try {
    if (!settled_) {
      if (why_.empty()) why_ = "memory is short";
      fail();
    }
    throw_away();
  } catch (const std::bad_alloc&) {
    // Nothing is said of it, then; the launch is what counts.
  }
  pre_.reset();  // frees on the device, with the context still current
  if (gated_ || launch_.stopped != nullptr) release_arrays();
  end_text();
  if (gated_) gate::open();
}

void LaunchCapture::take() {
  device_.hold_text();
  if (conf_.trace_native) return trace();
  const char* library = peers::library_of(*launch_.kernel);
  bool ready = library != nullptr ? name_what_is_not_held(library)
                                  : join_others() && prepare() && close_gate() && before();
  leave();
  if (!ready) {
    if (!settled_) fail();
    release_arrays();
    end_text();
    if (gated_) gate::open();
    gated_ = false;
    return;  // the caller launches
  }
  launched_ns_ = now_ns();
  real_.once();
  bool good = !reachable_.not_held.empty() ? after_not_held() : conf_.on_fault ? after_on_fault() : after();
  if (!good && !settled_) fail();
}

bool LaunchCapture::enter() {
  if (!entered_) entered_ = device_.enter(launch_, &why_);
  return entered_;
}

// The last that is done with the device. A launch that has not ended may wait for the target.
void LaunchCapture::end_text() noexcept {
  bool is_idle = false;
  try {
    std::string what;
    if (enter() && has_text_) {
      device_.begin_drain();
      is_idle = device_.idle(&what) == Poll::done;
    }
  } catch (const std::bad_alloc&) {
    // Then it counts as busy.
  }
  device_.end_text(launch_, is_idle);
  leave();
}

void LaunchCapture::leave() noexcept {
  if (entered_) device_.leave();
  entered_ = false;
}

// --- a launch that can only be described ------------------------------------------------------------

// A collective ends when other ranks come to theirs, which may be this process's next launch: nothing waits
// here, before or after it.
bool LaunchCapture::name_what_is_not_held(const char* library) {
  reachable_.not_held = peers::needs(library, MemoryMap::instance().snapshot());
  python_stack_ = python_stack_here();
  if (!enter()) return false;
  facts_ = device_.describe(launch_.device);
  return describe_only();
}

bool LaunchCapture::describe_only() {
  if (conf_.conditional()) {
    why_ = "it needs " + reachable_.not_held.front() + "; nothing of that can be kept for a condition";
    return false;
  }
  reachable_.regions.clear();
  reachable_.textures.clear();
  reachable_.included_bytes = reachable_.stored_bytes = 0;
  number_ = static_cast<int64_t>(process_.session.next_launch());
  write_launch();
  if (!recorded_) why_ = process_.session.refusal("its record");
  return recorded_;
}

bool LaunchCapture::after_not_held() {
  if (int status = real_.status(); status != 0) {
    if (is_fault(status)) return ended_badly(Ending::fault, device_.error_text(status));
    why_ = "the driver refused the launch: " + device_.error_text(status);
    return false;
  }
  if (!write_complete(Ending::complete, "")) return false;
  settle(Outcome::kept);
  return true;
}

// --- before the gate closes: all that asks, allocates or may take long -----------------------------

// Of a kernel that no selection counts, the launch's number is among all that this process made of it.
bool LaunchCapture::join_others() {
  if (!conf_.collective) return true;
  if (launch_.stopped != nullptr) {
    why_ = "it is in a graph, which a collective capture does not stop";
    return false;
  }
  const uint64_t number = wanted_.chosen ? launch_.kernel->launches.load() - 1 : wanted_.ordinal;
  const std::string name =
      launch_.kernel->name + "#" + std::to_string(number) + "@" + std::to_string(conf_.generation);
  return collective_.join(conf_, name, &why_);
}

bool LaunchCapture::prepare() {
  if (device_.is_capturing()) {
    why_ =
        "a stream capture is under way, where nothing can be copied; it can be captured when the graph is "
        "launched";
    return false;
  }
  start_writers();
  python_stack_ = launch_.stopped != nullptr ? launch_.stopped->python_stack : python_stack_here();
  if (!enter()) return false;
  facts_ = device_.describe(launch_.device);
  limits_ = device_.limits();
  leave();
  ImageFacts known = process_.facts_of(*launch_.kernel, facts_.arch);
  why_ = known.refusal;
  if (!why_.empty()) return false;
  parameters_ = known.has_parameters ? known.parameters : launch_.kernel->layout;
  parameters_known_ = known.has_parameters || launch_.kernel->layout_known;
  request_.roots = std::move(known.parameters);
  request_.has_roots = known.has_parameters;
  Image* image = launch_.kernel->module != nullptr ? launch_.kernel->module->image : nullptr;
  if (image != nullptr && image->data != nullptr && image->size != 0 && image->stored.load() == nullptr) {
    why_ = process_.session.refusal("its code");
    return false;
  }
  if (image != nullptr) program_ = process_.program_of(*image);
  if (conf_.conditional() && !conf_.no_values) pre_file_ = process_.memfds.take(0);
  if (waits_for(peers::other_device(launch_, MemoryMap::instance()))) return false;
  request_.mirror = device_.mirror_blocks();
  if (!enter()) return false;
  if (!known.globals.empty()) request_.globals = device_.globals(launch_, known.globals);
  if (!known.statics.empty())
    for (Allocation& variable : device_.statics(launch_, known.statics))
      request_.globals.push_back(std::move(variable));
  std::string note;
  device_.unseen(&note);
  if (!note.empty()) reachable_.notes.push_back(note);
  return true;
}

// What it waits for would be launched by a thread that is held by this capture, if not by this one.
bool LaunchCapture::waits_for(int device) {
  if (device < 0 || !process_.may_wait(*launch_.kernel, facts_.arch)) return false;
  process_.waiter_runs.store(true);
  why_ = "it loads a value in a loop and reaches memory of device " + std::to_string(device) +
         ": it may wait for a launch there, which would wait for this capture";
  return true;
}

bool LaunchCapture::close_gate() {
  if (launch_.stopped != nullptr) return true;
  leave();
  if (!pass(Collective::Step::met)) return false;
  gated_ = gate::close(conf_.drain_timeout_ns());
  if (!gated_)
    why_ = "another thread did not come back from a driver call within " +
           seconds_text(conf_.drain_timeout_ns());
  return gated_;
}

// --- from the closed gate to the launch -------------------------------------------------------------

Poll LaunchCapture::wait_for_idle(std::string* what) {
  if (launch_.stopped == nullptr) device_.begin_drain();
  uint64_t deadline = now_ns() + conf_.drain_timeout_ns();
  for (Backoff backoff;; backoff.pause()) {
    Poll poll = launch_.stopped != nullptr ? launch_.stopped->poll(what) : device_.idle(what);
    if (poll != Poll::pending || now_ns() >= deadline) return poll;
  }
}

// All has ended, and it is known which memory the launch reaches.
bool LaunchCapture::look() {
  if (!enter()) return false;
  if (device_.is_capturing()) {
    why_ = "a stream capture began, where nothing can be copied";
    return false;
  }
  std::string what, let_through;
  Poll poll = launch_.stopped != nullptr ? wait_for_idle(&what)
                                         : drain_device(process_, device_, &what, &let_through);
  if (poll == Poll::pending) {
    why_ = what;
    return false;
  }
  if (!let_through.empty()) reachable_.notes.push_back(let_through);
  if (poll == Poll::failed) {
    if (is_fault(device_.status())) process_.saw_fault(what);
    why_ = "an earlier launch failed: " + what;
    return false;
  }
  if (!device_.prepare(&why_) || !find_owners() || !find_regions()) return false;
  if (reachable_.not_held.empty())
    for (const Region& region : reachable_.regions)
      if (region.kind == RegionKind::device && region.shared.empty() && region.device != launch_.device &&
          waits_for(region.device))
        return false;
  return true;
}

bool LaunchCapture::before() {
  if (!look()) return false;
  if (!reachable_.not_held.empty()) return describe_only();
  if (launch_.stopped == nullptr) limits_.heap_in_use = device_.heap_in_use();
  if (!check_sizes() || !place_arrays()) return false;
  number_ = static_cast<int64_t>(process_.session.next_launch());
  if (!conf_.no_values && !snapshot()) return false;
  if (conf_.on_fault) release_arrays();  // the gate may open before they are
  write_launch();
  if (!recorded_) why_ = process_.session.refusal("its record");
  takes_text_ = recorded_ && !conf_.on_fault && device_.begin_text();
  return recorded_ && pass(Collective::Step::saved);
}

bool LaunchCapture::find_owners() {
  request_.allocations = MemoryMap::instance().snapshot();
  // Its owner may have no context here; if this device may not read it, neither may the launch.
  for (Allocation& allocation : request_.allocations)
    if (allocation.shared == Shared::imported && allocation.kind == RegionKind::device &&
        std::strcmp(allocation.how, "cuMemMap") == 0)
      allocation.device = launch_.device;
  request_.has_owners = collective_.is_joined();
  return !request_.has_owners || collective_.find_owners(device_, &request_.allocations, &why_);
}

bool LaunchCapture::find_regions() {
  request_.mode = conf_.reach();
  if (!conf_.no_values) request_.max_size = conf_.max_size;
  request_.chunk_bytes = conf_.chunk_bytes;
  // What Triton launches takes no textures, and a number that is also one's is a number.
  if (!wanted_.chosen) request_.textures = device_.textures();
  if (!find_reachable_memory(device_, launch_, std::move(request_), &reachable_, &why_)) return false;
  why_ = reachable_.refusal;
  return why_.empty();
}

// Each array is copied into memory of ours, which is then measured, kept and compared as any other.
bool LaunchCapture::place_arrays() {
  for (TextureObject& texture : reachable_.textures) {
    if (texture.array == 0) continue;
    std::vector<Region>& regions = reachable_.regions;
    auto is_its = [&](const Region& region) { return region.array == texture.array; };
    auto known = std::find_if(regions.begin(), regions.end(), is_its);
    texture.region = static_cast<size_t>(known - regions.begin());
    if (known != regions.end()) continue;
    Region region;
    region.base = device_.clone_room(launch_.device, texture.shape.size);
    if (region.base == 0) {
      why_ = "the device has no room for a copy of an array of " + size_text(texture.shape.size);
      return false;
    }
    region.size = texture.shape.size;
    region.kind = RegionKind::array;
    region.device = launch_.device;
    region.reason = texture.kind + (" object " + std::to_string(texture.handle));
    region.array = texture.array;
    region.shape = texture.shape;
    regions.push_back(region);
  }
  return true;
}

// While nobody else is at the device's memory: the gate is closed.
void LaunchCapture::release_arrays() noexcept {
  for (Region& region : reachable_.regions)
    if (region.array != 0) device_.free_clone(region.device, region.base);
  for (Region& region : reachable_.regions) region.array = 0;
}

bool LaunchCapture::fits() {
  uint64_t size = reachable_.stored_bytes;
  if (!reachable_.unfinished && size <= conf_.max_size) return true;
  why_ = "it can reach " + std::string(reachable_.unfinished ? "at least " : "") + size_text(size) +
         ", more than --max-size " + size_text(conf_.max_size) + ": " + describe_sizes(reachable_.regions);
  return false;
}

bool LaunchCapture::check_sizes() {
  if (conf_.no_values) return true;
  uint64_t size = reachable_.stored_bytes;
  if (!fits()) return false;
  if (!wanted_.chosen && process_.selection.exceeds_limit(size)) {
    why_ = word::filter::limit;
    settle(Outcome::refused);
    return false;
  }
  return true;
}

bool LaunchCapture::snapshot() {
  uint64_t started = now_ns();
  layout_ = std::make_unique<Layout>(reachable_.regions, conf_.chunk_bytes);
  pre_ = std::make_unique<Snapshot>(device_, *layout_);
  if (!pre_->measure(&why_)) return false;
  // After a fault only the host's memory is there.
  if (conf_.when && !conf_.on_fault && !pre_->clone(&why_)) return false;
  if (!open_pre()) return false;
  Reporter reporter(process_, number_, launch_.kernel->demangled, pre_->bytes_to_write());
  if (!pre_->save(*pre_file_, &reporter, &why_)) return false;
  pre_ns_ = now_ns() - started;
  return true;
}

bool LaunchCapture::open_pre() {
  uint64_t needed = pre_->bytes_to_write(), free = free_space(process_.session.folder());
  if (pre_file_ != nullptr) {
    if (memory_has_room(needed)) return pre_file_->resize(layout_->size, &why_);
    process_.memfds.give_back(std::move(pre_file_));
  }
  if (needed > free) {
    why_ =
        "no space: needs " + size_text(needed) + ", " + process_.session.folder() + " has " + size_text(free);
    return false;
  }
  pre_file_ = std::make_unique<SnapshotFile>();
  return pre_file_->create(process_.session, std::to_string(number_) + ".pre", layout_->size, &why_);
}

// --- after the launch --------------------------------------------------------------------------------

bool LaunchCapture::after() {
  int status = real_.status();
  if (status != 0 && is_fault(status)) return ended_badly(Ending::fault, device_.error_text(status));
  if (status != 0) {
    why_ = "the driver refused the launch: " + device_.error_text(status);
    if (conf_.conditional()) drop(why_);
    return false;
  }
  if (!enter()) return false;
  std::string what;
  Poll poll = wait_for_idle(&what);
  if (poll == Poll::failed) return ended_badly(Ending::fault, what);
  if (poll == Poll::pending) {
    why_ = what + " did not finish within " + seconds_text(conf_.drain_timeout_ns()) + " after the launch";
    if (gate::Waiter who; gate::first_waiter(&who)) why_ += ", while " + text_of(who) + " waited for its end";
    return false;
  }
  duration_ns_ = now_ns() - launched_ns_;
  if (!pass(Collective::Step::ended)) return false;
  if (takes_text_) device_.take_text(&text_);
  has_text_ = takes_text_;
  bool keep = !conf_.when;
  if (conf_.when && !judge(&keep)) return false;
  if (!keep) {
    drop("not " + *conf_.when);
    return true;
  }
  return finish_kept();
}

bool LaunchCapture::finish_kept() {
  if (pre_ != nullptr) {
    if (!pre_->fetch(*pre_file_, nullptr, &why_)) return false;
    uint64_t started = now_ns();
    PostOutlet outlet(process_.session, std::to_string(number_) + ".post", &post_file_);
    Reporter reporter(process_, number_, launch_.kernel->demangled, 0);
    if (!find_changed(device_, *layout_, pre_->prints(), &outlet, &reporter, &chunks_, nullptr, &why_))
      return false;
    post_ns_ = now_ns() - started;
  }
  for (SnapshotFilePtr* file : {&pre_file_, &post_file_})
    if (*file != nullptr && !(*file)->finish(&why_)) return false;
  if (!pass(Collective::Step::kept)) return false;
  if (!write_complete(Ending::complete, "")) return false;
  settle(Outcome::kept);
  return true;
}

// The gate stays closed while the launch may end soon, so that a fault is this launch's; a kernel that
// waits for another thread must not wait for us, so it opens before the launch counts as hung.
bool LaunchCapture::after_on_fault() {
  int status = real_.status();
  if (status != 0 && is_fault(status)) return ended_badly(Ending::fault, device_.error_text(status));
  if (status != 0) {
    drop("the driver refused the launch: " + device_.error_text(status));
    return true;
  }
  if (!enter()) return false;
  std::string what;
  Stopped* stopped = launch_.stopped;
  Poll poll = stopped != nullptr || device_.mark(launch_) ? Poll::pending : Poll::failed;
  if (poll == Poll::failed) what = device_.error_text(device_.status());
  uint64_t started = now_ns();
  for (Backoff backoff; poll == Poll::pending; backoff.pause()) {
    poll = stopped != nullptr ? stopped->poll(&what) : device_.passed(&what);
    uint64_t waited = now_ns() - started;
    if (waited >= conf_.fault_timeout_ns()) break;
    if (gated_ && waited >= conf_.drain_timeout_ns()) {
      gate::open();
      gated_ = false;
    }
  }
  if (poll == Poll::failed) return ended_badly(Ending::fault, what);
  if (poll == Poll::pending)
    return ended_badly(Ending::timeout, "it did not finish within " + seconds_text(conf_.fault_timeout_ns()));
  drop("the launch succeeded");
  return true;
}

bool LaunchCapture::ended_badly(Ending ending, const std::string& error) {
  if (ending == Ending::fault) process_.saw_fault(error);
  if (collective_.is_joined()) {
    why_ = "the launch failed: " + error;
    return false;
  }
  if (pre_ != nullptr && pre_->has_clones()) {
    why_ = "the launch failed (" + error + ") while its pre-state was on the device; --on-fault keeps it";
    return false;
  }
  if (!write_complete(ending, error)) return false;
  settle(Outcome::kept);
  return true;
}

// --- what became of it -------------------------------------------------------------------------------

void LaunchCapture::drop(const std::string& reason) {
  throw_away();
  json::Writer json;
  json.begin_object().field(key::launch, number_).field(key::reason, reason).end();
  process_.session.write(KERNCAP_RECORD_DROPPED, json);
  why_ = reason;
  settle(Outcome::dropped);
}

void LaunchCapture::fail() {
  throw_away();
  process_.session.failed(launch_.kernel->demangled, why_, recorded_ ? number_ : -1);
  settle(Outcome::failed);
}

// Nobody needs these bytes: memfds are used again, files deleted.
void LaunchCapture::throw_away() {
  if (pre_file_ != nullptr && pre_file_->is_memfd())
    process_.memfds.give_back(std::move(pre_file_));
  else if (pre_file_ != nullptr)
    pre_file_->remove();
  if (post_file_ != nullptr) post_file_->remove();
  pre_file_.reset();
  post_file_.reset();
}

void LaunchCapture::settle(Outcome outcome) {
  settled_ = true;
  if (outcome == Outcome::kept) {
    Kept kept{static_cast<uint64_t>(number_), launch_.kernel, std::move(pre_file_), std::move(post_file_),
              wanted_.chosen};
    process_.remember(std::move(kept));  // else closed: the files, or the command line's copies, stay
  }
  if (wanted_.chosen) {
    capture::Fate fate = outcome == Outcome::kept      ? capture::Fate::kept
                         : outcome == Outcome::dropped ? capture::Fate::dropped
                                                       : capture::Fate::failed;
    process_.set_result(wanted_.choice.token, fate, why_);
    if (outcome == Outcome::kept) process_.selection.chosen_was_kept();
  } else {
    bool done = process_.selection.settle(launch_, outcome, reachable_.stored_bytes, why_);
    if (outcome == Outcome::kept || outcome == Outcome::failed) process_.write_counts();
    real_.stop_after = done && outcome == Outcome::kept && conf_.stop;
  }
}

bool LaunchCapture::judge(bool* keep) {
  if (pre_ == nullptr) {
    why_ = "--when needs the values, which --no-values leaves out";
    return false;
  }
  return conf_.when == word::when::differs ? judge_differs(keep) : judge_nonfinite(keep);
}

}  // namespace kerncap
