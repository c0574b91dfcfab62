/* SPDX-License-Identifier: Apache-2.0
 *
 * Remora from C: a network with a long skip connection, scheduled under 75 % of its peak.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <remora.h>

enum { kLayers = 10 };

static void check(remora_status status) {
  if (status == REMORA_OK) return;
  fprintf(stderr, "%s\n", remora_last_error());
  exit(65);
}

/* Each layer reads the one before, and the last ones the first ones, too. */
static remora_graph* network(void) {
  remora_graph* graph = NULL;
  check(remora_graph_new("skips", &graph));
  int32_t outputs[kLayers];
  for (int layer = 0; layer < kLayers; ++layer) {
    char name[32];
    snprintf(name, sizeof name, "t%d", layer);
    check(remora_graph_add_tensor(graph, name, 1 << 20, layer == kLayers - 1, &outputs[layer]));
    int32_t inputs[2];
    size_t input_count = 0;
    if (layer > 0) inputs[input_count++] = outputs[layer - 1];
    if (layer >= kLayers / 2) inputs[input_count++] = outputs[kLayers - 1 - layer];
    snprintf(name, sizeof name, "layer%d", layer);
    check(remora_graph_add_op(graph, name, 100, inputs, input_count, &outputs[layer], 1, NULL));
  }
  return graph;
}

static int show(void* context, const remora_progress* progress) {
  (void)context;
  printf("%s: duration %" PRId64 ", peak %" PRId64 "\n", progress->source, progress->duration, progress->peak);
  return 0;
}

int main(void) {
  remora_graph* graph = network();
  remora_instance* instance = NULL;
  check(remora_instance_new(graph, "75%", 2, REMORA_ORDER_INPUT, &instance));
  remora_options* options = NULL;
  check(remora_options_new(&options));
  check(remora_options_set(options, "time-limit", "10"));
  remora_callbacks callbacks = {0};
  callbacks.size = sizeof callbacks;
  callbacks.progress = show;
  remora_schedule* schedule = NULL;
  check(remora_solve(instance, options, &callbacks, NULL, &schedule));

  const remora_result result = remora_schedule_result(schedule);
  int done = result == REMORA_OPTIMAL || result == REMORA_FEASIBLE;
  if (done) {
    int valid = 0;
    check(remora_schedule_verify(schedule, graph, &valid, NULL));
    for (size_t step = 0; step < remora_schedule_step_count(schedule); ++step) {
      printf("%s", remora_graph_op_name(graph, remora_schedule_step_op(schedule, step)));
      for (size_t i = 0; i < remora_schedule_step_release_count(schedule, step); ++i) {
        printf(", free %s", remora_graph_tensor_name(graph, remora_schedule_step_release(schedule, step, i)));
      }
      printf("\n");
    }
    printf("overhead %.2f %%, peak %" PRId64 " of %" PRId64 " bytes\n", 100 * remora_schedule_overhead(schedule),
           remora_schedule_peak(schedule), remora_instance_baseline_peak(instance));
    done = valid;
  }
  remora_schedule_free(schedule);
  remora_options_free(options);
  remora_instance_free(instance);
  remora_graph_free(graph);
  return done ? 0 : 1;
}
