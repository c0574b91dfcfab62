/* SPDX-License-Identifier: Apache-2.0
 *
 * A program of 2026-11-22. It copies what it is told, by the sizes that it knows.
 */
#include <remora.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLayers = 10, kGuard = 0x5a };

struct seen {
  int progress, incumbents;
  remora_progress last;
  unsigned char guard[64]; /* behind the copy: nobody may write here */
};

static int on_progress(void* context, const remora_progress* progress) {
  struct seen* seen = context;
  ++seen->progress;
  if (progress->size < sizeof seen->last) exit(2);
  memcpy(&seen->last, progress, sizeof seen->last);
  return 0;
}

static void on_incumbent(void* context, const remora_schedule* schedule) {
  (void)schedule;
  ++((struct seen*)context)->incumbents;
}

static void check(remora_status status) {
  if (status == REMORA_OK) return;
  fprintf(stderr, "%s\n", remora_last_error());
  exit(1);
}

int main(void) {
  remora_graph* graph = NULL;
  check(remora_graph_new("old", &graph));
  for (int32_t layer = 0; layer < kLayers; ++layer) {
    char name[16];
    snprintf(name, sizeof name, "t%d", (int)layer);
    int32_t tensor;
    check(remora_graph_add_tensor(graph, name, 100, 0, &tensor));
    const int32_t inputs[2] = {layer - 1, kLayers - 1 - layer};
    const size_t count = layer == 0 ? 0 : layer > kLayers / 2 ? 2 : 1;
    check(remora_graph_add_op(graph, name, 10, inputs, count, &tensor, 1, NULL));
  }
  remora_instance* instance = NULL;
  check(remora_instance_new(graph, "80%", 2, REMORA_ORDER_INPUT, &instance));
  remora_options* options = NULL;
  check(remora_options_new(&options));
  check(remora_options_set(options, "work_limit", "5000"));

  /* What an older struct has behind it is another's: the library must not read it. */
  struct {
    remora_callbacks callbacks;
    unsigned char behind[64];
  } given;
  struct seen seen = {0};
  memset(seen.guard, kGuard, sizeof seen.guard);
  memset(&given, 0xff, sizeof given);
  memset(&given.callbacks, 0, sizeof given.callbacks);
  given.callbacks.size = sizeof given.callbacks;
  given.callbacks.context = &seen;
  given.callbacks.progress = on_progress;
  given.callbacks.incumbent = on_incumbent;
  remora_schedule* schedule = NULL;
  check(remora_solve(instance, options, &given.callbacks, NULL, &schedule));
  for (size_t i = 0; i < sizeof seen.guard; ++i) {
    if (seen.guard[i] != kGuard) return 3;
  }
  int valid = 0;
  check(remora_schedule_verify(schedule, graph, &valid, NULL));
  printf("%d progress, %d incumbents, duration %ld, last told %ld, valid %d\n", seen.progress > 0, seen.incumbents > 0,
         (long)remora_schedule_duration(schedule), (long)seen.last.duration, valid);
  const int right = valid && seen.progress > 0 && seen.incumbents > 0 &&
                    seen.last.duration == remora_schedule_duration(schedule) && seen.last.source != NULL;
  remora_schedule_free(schedule);
  remora_options_free(options);
  remora_instance_free(instance);
  remora_graph_free(graph);
  return right ? 0 : 4;
}
