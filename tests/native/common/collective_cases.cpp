#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "check.h"
#include "common/collective.h"
#include "common/session_options.h"
#include "common/text.h"

using namespace kerncap;

namespace {

constexpr int ranks = 8, steps = static_cast<int>(Collective::Step::kept) + 1;
enum Ending { passed = 0, refused_as_ended = 1, refused_as_given_up = 2, refused_as_late = 3, other = 4 };

Conf conf_of(const std::string& folder, double timeout_s) {
  Conf conf;
  conf.folder = folder;
  conf.token = "0123456789abcdef";
  conf.collective = ranks;
  conf.collective_timeout_s = timeout_s;
  return conf;
}

Ending ending_of(const std::string& why) {
  if (why.find("rank 3 ended") != std::string::npos) return refused_as_ended;
  if (why.find("rank 3 could not") != std::string::npos) return refused_as_given_up;
  // On a busy machine another rank may be late before rank 3 is.
  return why.find("in time") != std::string::npos ? refused_as_late : other;
}

// What each of eight processes comes to, when rank 3 does `leave` in place of a step.
template <typename Leave>
std::vector<int> endings(double timeout_s, int step, Leave leave) {
  char folder[] = "/tmp/kerncap-collective-XXXXXX";
  CHECK(mkdtemp(folder) != nullptr);
  const Conf conf = conf_of(folder, timeout_s);
  int done[2];  // is closed when all others have come to their ends
  CHECK(pipe(done) == 0);
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    close(done[1]);
    setenv("RANK", std::to_string(rank).c_str(), 1);
    Ending ending = passed;
    {
      Collective collective;
      std::string why;
      bool good = collective.join(conf, "kernel#0", &why);
      for (int i = 0; i < steps && good; ++i) {
        if (rank == 3 && i == step) leave(done[0]);
        good = rank == 3 && i >= step ? false : collective.pass(static_cast<Collective::Step>(i), &why);
      }
      if (!good) ending = rank == 3 ? passed : ending_of(why);
    }
    _exit(ending);
  }
  close(done[0]);
  std::vector<int> found(ranks);
  for (int rank = 0; rank < ranks; ++rank) {
    if (rank == 3) continue;
    CHECK(waitpid(children[static_cast<size_t>(rank)], &found[static_cast<size_t>(rank)], 0) > 0);
  }
  close(done[1]);
  CHECK(waitpid(children[3], &found[3], 0) > 0);
  CHECK(std::system(("rm -r " + std::string(folder)).c_str()) == 0);
  return found;
}

void all_others(const std::vector<int>& found, Ending ending) {
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != 3)
      CHECK(WIFEXITED(found[static_cast<size_t>(rank)]) &&
            WEXITSTATUS(found[static_cast<size_t>(rank)]) == ending);
}

}  // namespace

CASE(collective_passes_all_steps) {
  for (int status : endings(60, steps, [](int) {})) CHECK(WIFEXITED(status) && WEXITSTATUS(status) == passed);
}

CASE(collective_sees_a_rank_that_was_killed_at_any_step) {
  for (int step = 0; step < steps; ++step)
    all_others(endings(60, step, [](int) { kill(getpid(), SIGKILL); }), refused_as_ended);
}

CASE(collective_sees_a_rank_that_gives_up_at_any_step) {
  for (int step = 0; step < steps; ++step) all_others(endings(60, step, [](int) {}), refused_as_given_up);
}

CASE(collective_does_not_wait_for_a_rank_forever) {
  for (int step : {0, static_cast<int>(Collective::Step::ended)})
    all_others(endings(0.2, step,
                       [](int done) {
                         char byte;
                         while (read(done, &byte, 1) > 0) continue;
                       }),
               refused_as_late);
}
