// Stands for libkerncap_cuda.so: the C functions that the hook calls, and what a test sees of them.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace {
thread_local unsigned long long g_chosen = 0;
thread_local char g_name[256] = "";
int g_live = 1;
int g_verdict = 1;
int g_disarmed = 0;
unsigned long long g_launched = 0;

void say(const char* format, const char* name, unsigned long long token, const char* annotation) {
  FILE* log = fopen(getenv("FAKE_SHIM_LOG"), "a");
  fprintf(log, format, name, token, annotation);
  fclose(log);
}
}  // namespace

extern "C" {
int kerncap_cuda_live(void) {
  return g_live;
}
void kerncap_cuda_own(const char* name) {
  say("own %s\n", name, 0, "");
}
void kerncap_cuda_choose(const char* name, unsigned long long token, const char* annotation) {
  say("choose %s %llu %s\n", name, token, annotation);
  g_chosen = token;
  snprintf(g_name, sizeof g_name, "%s", name);
}
void kerncap_cuda_choose_types(unsigned long long token, const char* types) {
  say("types %s %llu\n", types, token, "");
}
int kerncap_cuda_disarmed(void) {
  return g_disarmed;
}
int kerncap_cuda_outcome(unsigned long long token, char*, unsigned long) {
  int verdict = token == g_launched ? g_verdict : 0;
  g_chosen = 0;
  say(verdict ? "outcome %s %llu\n" : "forget %s %llu\n", g_name, token, "");
  return verdict;
}

#ifdef WITH_LISTING
void kerncap_cuda_config(const char* text) {
  say("config %s\n", text, 0, "");
}
long kerncap_cuda_range(char* text, unsigned long size) {
  return snprintf(text, size, "outer\ninner\n");
}
#endif

#ifdef WITH_GRAPHS
void kerncap_cuda_choose_in_graph(const char* name, unsigned long long token, const char* annotation) {
  say("choose_in_graph %s %llu %s\n", name, token, annotation);
}
#endif

// What the test's driver calls in the place of cuLaunchKernelEx.
void fake_launch(const char* name) {
  bool chosen = g_chosen != 0 && strcmp(name, g_name) == 0;
  if (chosen) {
    g_launched = g_chosen;
    g_chosen = 0;
  }
  say("launch %s %llu\n", name, chosen ? g_launched : 0, "");
}
void fake_disarm(void) {
  g_disarmed = 1;
}
void fake_set(int live, int verdict) {
  g_live = live;
  g_verdict = verdict;
}

#ifdef WITH_MIRROR
namespace {
pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t g_change = PTHREAD_COND_INITIALIZER;
unsigned long long g_request = 0, g_taken = 0, g_answered = 0;
unsigned long long g_triples[64];
long g_count = 0, g_offered = 0;
}  // namespace

unsigned long long kerncap_cuda_mirror_wait(void) {
  pthread_mutex_lock(&g_lock);
  while (g_request == g_taken) pthread_cond_wait(&g_change, &g_lock);
  unsigned long long request = g_taken = g_request;
  pthread_mutex_unlock(&g_lock);
  return request;
}
void kerncap_cuda_mirror_answer(unsigned long long request, const unsigned long long* triples, long count) {
  pthread_mutex_lock(&g_lock);
  if (request == g_request) {
    g_answered = request;
    g_count = count;
    if (count > 0) memcpy(g_triples, triples, sizeof(*triples) * 3 * count);
    pthread_cond_broadcast(&g_change);
  }
  pthread_mutex_unlock(&g_lock);
}
void kerncap_cuda_mirror_offer(const unsigned long long*, long count) {
  g_offered = count;
}
long fake_offered(void) {
  return g_offered;
}

// Asks as the shim does. -2: nobody answered before the deadline.
long fake_ask(unsigned milliseconds, unsigned long long* triples) {
  timespec deadline;
  clock_gettime(CLOCK_REALTIME, &deadline);
  deadline.tv_sec += milliseconds / 1000;
  deadline.tv_nsec += milliseconds % 1000 * 1000000L;
  deadline.tv_sec += deadline.tv_nsec / 1000000000L;
  deadline.tv_nsec %= 1000000000L;
  pthread_mutex_lock(&g_lock);
  unsigned long long request = ++g_request;
  pthread_cond_broadcast(&g_change);
  int late = 0;
  while (g_answered != request && !late) late = pthread_cond_timedwait(&g_change, &g_lock, &deadline);
  long count = g_answered == request ? g_count : -2;
  if (count > 0) memcpy(triples, g_triples, sizeof(*triples) * 3 * count);
  ++g_request, g_taken = g_request;  // whatever comes now is late
  pthread_mutex_unlock(&g_lock);
  return count;
}
#endif
}
