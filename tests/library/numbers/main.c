/* SPDX-License-Identifier: Apache-2.0
 *
 * The C interface in the locale of the environment: prints what it reads and writes with numbers. usage: main FOLDER
 */
#include <inttypes.h>
#include <locale.h>
#include <remora.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLayers = 10 };

static void check(remora_status status) {
  if (status == REMORA_OK) return;
  fprintf(stderr, "%s\n", remora_last_error());
  exit(65);
}

static remora_graph* chain_with_skips(void) {
  remora_graph* graph = NULL;
  check(remora_graph_new("skips", &graph));
  int32_t outputs[kLayers];
  for (int layer = 0; layer < kLayers; ++layer) {
    char name[16];
    snprintf(name, sizeof name, "t%d", layer);
    check(remora_graph_add_tensor(graph, name, 3 << 19, layer == kLayers - 1, &outputs[layer]));
    int32_t inputs[2];
    size_t input_count = 0;
    if (layer > 0) inputs[input_count++] = outputs[layer - 1];
    if (layer >= kLayers / 2) inputs[input_count++] = outputs[kLayers - 1 - layer];
    snprintf(name, sizeof name, "layer%d", layer);
    check(remora_graph_add_op(graph, name, 1234567, inputs, input_count, &outputs[layer], 1, NULL));
  }
  return graph;
}

static remora_instance* instance_of(const remora_graph* graph, const char* budget) {
  remora_instance* instance = NULL;
  if (remora_instance_new(graph, budget, 2, REMORA_ORDER_INPUT, &instance) != REMORA_OK) {
    printf("%s\n", remora_last_error());
    return NULL;
  }
  printf("%s is %" PRId64 " of %" PRId64 "\n", budget, remora_instance_budget(instance),
         remora_instance_baseline_peak(instance));
  return instance;
}

static void show_options(const remora_options* options) {
  const char* name = NULL;
  for (size_t i = 0; (name = remora_option_name(i)) != NULL; ++i) {
    char* value = NULL;
    check(remora_options_get(options, name, &value));
    printf("%s %s: %s\n", name, value, remora_option_help(i));
    remora_text_free(value);
  }
}

static void show_schedule(const remora_instance* instance, const remora_options* options, const remora_graph* graph) {
  remora_schedule* schedule = NULL;
  check(remora_solve(instance, options, NULL, NULL, &schedule));
  char* text = NULL;
  check(remora_schedule_text(schedule, graph, &text));
  printf("%s", text);
  remora_text_free(text);
  remora_schedule_free(schedule);
}

int main(int count, char** words) {
  if (count != 2 || setlocale(LC_ALL, "") == NULL) return 64;
  char numbers[16];
  snprintf(numbers, sizeof numbers, "%.1f", 0.5);
  fprintf(stderr, "%s\n", numbers); /* what the locale makes of it */

  remora_graph* graph = chain_with_skips();
  char path[1024];
  snprintf(path, sizeof path, "%s/graph.json", words[1]);
  check(remora_graph_write(graph, path));
  remora_graph* again = NULL;
  check(remora_graph_read(path, &again));
  remora_graph_free(graph);

  remora_options* options = NULL;
  check(remora_options_new(&options));
  check(remora_options_set(options, "time-limit", "1.5"));
  check(remora_options_set(options, "work-limit", "20000"));
  check(remora_options_set(options, "threads", "1"));
  show_options(options);
  const char* const budgets[] = {"62.5%", "7.5MiB", "0.8", "12,5%", "1.5 parsecs"};
  for (size_t i = 0; i < sizeof budgets / sizeof *budgets; ++i) {
    remora_instance* instance = instance_of(again, budgets[i]);
    if (instance != NULL) show_schedule(instance, options, again);
    remora_instance_free(instance);
  }
  const char* const text =
      "{\"format\": \"remora-graph\", \"version\": 1, \"tensors\": [{\"name\": \"a\", \"size\": 1.5}]}";
  remora_graph* none = NULL;
  if (remora_graph_parse(text, strlen(text), &none) != REMORA_OK) printf("%s\n", remora_last_error());
  remora_options_free(options);
  remora_graph_free(again);
  return 0;
}
