// What --list counts by: ranges, rows, Python stacks.
#include <deque>
#include <string>
#include <thread>

#include "check.h"
#include "common/json.h"
#include "common/listing_rows.h"
#include "common/nvtx_ranges.h"
#include "common/python_stack.h"
#include "common/rank.h"

using namespace kerncap;

namespace {

Kernel& kernel(const char* name) {
  static std::deque<Kernel> kernels;  // they live as long as the process
  Kernel& made = kernels.emplace_back();
  made.name = made.demangled = name;
  return made;
}

Launch launch_of(Kernel& kernel, uint32_t grid) {
  Launch launch;
  launch.kernel = &kernel;
  launch.grid = {grid, 1, 1};
  launch.block = {64, 1, 1};
  launch.route = "cuLaunchKernel";
  return launch;
}

json::Value written(Rows& rows, const void* owner) {
  json::Writer json;
  json.begin_object();
  rows.write(owner, json);
  json.end();
  json::Value value;
  CHECK(json::parse(json.text(), &value));
  return value;
}

double number(const json::Value& of, Key name) {
  const json::Value* found = of.find(name);
  CHECK(found != nullptr && found->kind == json::Value::Kind::number);
  return found->number;
}

}  // namespace

CASE(ranges_of_a_thread_and_of_the_process) {
  int domain = 0;
  CHECK(ranges::here() == 0 && ranges::text_of(0).empty());
  CHECK(ranges::pop(nullptr) == -1);
  CHECK(ranges::push(nullptr, "a") == 0 && ranges::push(nullptr, "b") == 1);
  CHECK(ranges::push(&domain, "c") == 0);  // depths are each domain's own
  CHECK(ranges::text_of(ranges::here()) == "a/b/c");
  CHECK(ranges::pop(nullptr) == 1);
  CHECK(ranges::text_of(ranges::here()) == "a/c");
  uint64_t run = ranges::start("run");
  CHECK(ranges::text_of(ranges::here()) == "run/a/c");
  std::thread([] { CHECK(ranges::text_of(ranges::here()) == "run"); }).join();
  ranges::Path path = ranges::here();
  ranges::end(run);
  CHECK(ranges::text_of(ranges::here()) == "a/c" && ranges::text_of(path) == "run/a/c");
  CHECK(ranges::pop(&domain) == 0 && ranges::pop(nullptr) == 0 && ranges::here() == 0);
}

CASE(ranges_are_bounded) {
  for (int i = 0; i < 300; ++i) CHECK(ranges::push(nullptr, "deep") == i);
  CHECK(ranges::names_of(ranges::here()).size() == 128);
  for (int i = 299; i >= 0; --i) CHECK(ranges::pop(nullptr) == i);
  CHECK(ranges::here() == 0);
  for (int i = 0; i < 40000; ++i) {
    ranges::push(nullptr, "iteration " + std::to_string(i));
    CHECK(ranges::here() != 0);
    ranges::pop(nullptr);
  }
  ranges::push(nullptr, std::string(10000, 'x'));
  std::string text = ranges::text_of(ranges::here());
  CHECK(text == "(more ranges)" || text == "(more names)");
}

CASE(rows_tell_launches_apart) {
  Rows rows;
  Kernel &one = kernel("one"), &other = kernel("other");
  RowNumber first = rows.count(&one, launch_of(one, 1), 0, "");
  CHECK(rows.count(&one, launch_of(one, 1), 0, "") == first);
  RowNumber wider = rows.count(&one, launch_of(one, 2), 0, ""),
            ranged = rows.count(&one, launch_of(one, 1), 7, "");
  RowNumber configured = rows.count(&one, launch_of(one, 1), 0, "BLOCK=64");
  CHECK(wider != first && ranged != first && configured != first && ranged != configured);
  Launch node = launch_of(other, 1);
  node.route = "cuGraphLaunch node 3";
  RowNumber of_graph = rows.count(&other, node, 0, "");
  node.route = "cuGraphLaunch node 4";
  CHECK(rows.count(&other, node, 0, "") == of_graph);
  for (uint64_t time : {30, 10, 20}) rows.add_time(first, {0, time});
  json::Value all = written(rows, &one);
  CHECK(number(all, key::time_ns) == 60 && number(all, key::timed) == 3);
  CHECK(number(all, key::min_ns) == 10 && number(all, key::max_ns) == 30);
  const json::Value* list = all.find(key::rows);
  CHECK(list != nullptr && list->items.size() == 4 && number(list->items[0], key::launches) == 2);
  CHECK(list->items[1].find(key::min_ns)->kind == json::Value::Kind::null);
  CHECK(list->items[3].find(key::config)->text == "BLOCK=64");
  CHECK(written(rows, &other).find(key::rows)->items[0].find(key::route)->text == "cuGraphLaunch");
}

CASE(rows_are_bounded) {
  Rows rows;
  Kernel& one = kernel("one");
  RowNumber rest = 0;
  for (uint32_t i = 0; i < 1030; ++i) rest = rows.count(&one, launch_of(one, i), 0, "");
  rows.add_time(rest, {0, 5});
  json::Value all = written(rows, &one);
  const std::vector<json::Value>& list = all.find(key::rows)->items;
  CHECK(list.size() == Rows::most_of_a_kernel + 1);
  CHECK(list.back().find(key::rest)->truth && number(list.back(), key::launches) == 6);
  CHECK(list.back().find(key::grid)->kind == json::Value::Kind::null &&
        number(list.back(), key::time_ns) == 5);
  for (int k = 0; k < 10; ++k) {
    Kernel& more = kernel("more");
    for (uint32_t i = 0; i < 1000; ++i) rows.count(&more, launch_of(more, i), 0, "");
    all = written(rows, &more);
  }
  CHECK(all.find(key::rows)->items.size() == 1 &&
        number(all.find(key::rows)->items[0], key::launches) == 1000);
}

CASE(rows_told_by_their_looks) {
  Rows rows;
  rows.keep_order();
  Kernel& one = kernel("one");
  KernelLooks looks{"one", {1, 1, 1}, {64, 1, 1}};
  auto times_of = [&](size_t row) {
    return number(written(rows, &one).find(key::rows)->items[row], key::time_ns);
  };
  // Two launches in one range before another row is known, then in turns: each has the times of its own.
  for (ranges::Path range : {1, 1, 2, 1, 2}) rows.count(&one, launch_of(one, 1), range, "");
  for (uint64_t time : {1, 10, 100, 1000, 10000}) rows.add_time(looks, {0, time});
  CHECK(times_of(0) == 1011 && times_of(1) == 10100);
  // Another shape, another stream than any that was told, a kernel that nobody counted.
  rows.count(&one, launch_of(one, 2), 0, "");
  looks.grid = {2, 1, 1};
  looks.stream = 7;
  rows.add_time(looks, {0, 5});
  CHECK(times_of(2) == 5);
  looks.grid = {3, 1, 1};
  rows.add_time(looks, {0, 6});
  looks.name = "nobody";
  rows.add_time(looks, {0, 7});
  CHECK(number(written(rows, &one), key::time_ns) == 11116);
}

CASE(stacks_as_the_interpreter_writes_them) {
  PythonStack stack = parse_python_stack(
      "Stack (most recent call first):\n"
      "  File \"/v/triton/runtime/jit.py\", line 700 in run\n"
      "  File \"/a \\u20ac, line 3 in b.py\", line 12 in inner\n"
      "  File \"<string>\", line ??? in <module>\n"
      "  ...\n");
  CHECK(stack.size() == 2);
  CHECK(stack[1].file == "/a \\u20ac, line 3 in b.py" && stack[1].line == 12 && stack[1].function == "inner");
  CHECK(stack[0].file == "<string>" && stack[0].line == 0 && stack[0].function == "<module>");
  CHECK(parse_python_stack("").empty() && parse_python_stack("  File \"").empty());
  CHECK(parse_python_stack("  File \"x\", line \n  File \"\", line 1 in ").size() == 1);
  CHECK(python_stack_here().empty());  // no Python in this program
}

CASE(ranks_from_the_environment) {
  for (const char* name : {"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"})
    unsetenv(name);
  CHECK(rank_here().global == -1 && rank_here().local == -1);
  setenv("SLURM_PROCID", "5", 1);
  CHECK(rank_here().global == 5);
  setenv("PMI_RANK", "not a number", 1);
  CHECK(rank_here().global == 5);
  setenv("RANK", "3", 1);
  setenv("LOCAL_RANK", "1", 1);
  CHECK(rank_here().global == 3 && rank_here().local == 1);
}
