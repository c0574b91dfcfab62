/* SPDX-License-Identifier: Apache-2.0
 *
 * Remora's C interface for graphs over several devices: where ops run, what is copied when, under a budget for each device
 * (docs/guide/devices.md). As <remora.h> says of handles, errors, threads and sizes.
 *
 *     remora_device_graph* graph = NULL;
 *     remora_device_graph_read("two-devices.json", &graph);
 *     int64_t budgets[] = {6, -1};
 *     remora_device_problem problem = {0};
 *     problem.size = sizeof problem;
 *     problem.budgets = budgets;
 *     problem.budget_count = 2;
 *     remora_device_schedule* schedule = NULL;
 *     if (remora_device_solve(graph, &problem, NULL, NULL, NULL, &schedule) != REMORA_OK) puts(remora_last_error());
 */
#ifndef REMORA_DEVICES_H
#define REMORA_DEVICES_H

#include "remora.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct remora_device_graph remora_device_graph;
typedef struct remora_device_schedule remora_device_schedule;

/* From a file, or a text of `size` bytes, in the format remora-graph 2 with "devices". It never changes. Devices, ops and
 * tensors are numbered from 0 in the order of the file. */
REMORA_EXPORT remora_status remora_device_graph_read(const char* path, remora_device_graph** made);
REMORA_EXPORT remora_status remora_device_graph_parse(const char* text, size_t size, remora_device_graph** made);
REMORA_EXPORT void remora_device_graph_free(remora_device_graph* graph);
REMORA_EXPORT remora_status remora_device_graph_write(const remora_device_graph* graph, const char* path);
REMORA_EXPORT int32_t remora_device_graph_device_count(const remora_device_graph* graph);
REMORA_EXPORT int32_t remora_device_graph_op_count(const remora_device_graph* graph);
REMORA_EXPORT int32_t remora_device_graph_tensor_count(const remora_device_graph* graph);
/* NULL for an unknown id. Owned by the graph. */
REMORA_EXPORT const char* remora_device_graph_device_name(const remora_device_graph* graph, int32_t device);
REMORA_EXPORT const char* remora_device_graph_op_name(const remora_device_graph* graph, int32_t op);
REMORA_EXPORT const char* remora_device_graph_tensor_name(const remora_device_graph* graph, int32_t tensor);
/* -1 for an unknown name. */
REMORA_EXPORT int32_t remora_device_graph_find_device(const remora_device_graph* graph, const char* name);

typedef enum remora_objective { REMORA_LEAST_DURATION = 0, REMORA_LEAST_ENERGY = 1 } remora_objective;
/* One thing at a time, or copies concurrent with computation, each link on its own. A graph with lanes overlaps them and copies in either case. */
typedef enum remora_copies { REMORA_COPIES_SEQUENTIAL = 0, REMORA_COPIES_OVERLAP = 1 } remora_copies;

/* Begin with {0} and say the size; what stays 0 is the default. */
typedef struct remora_device_problem {
  size_t size;            /* sizeof(remora_device_problem) */
  const int64_t* budgets; /* bytes by device, -1 for no limit; devices beyond the count have none */
  size_t budget_count;
  int32_t objective;      /* remora_objective */
  int32_t order;          /* REMORA_ORDER_INPUT or REMORA_ORDER_FREE */
  int32_t max_computes;   /* of an op on all devices together, the first one counted; 0: 2, and more where they pay */
  int64_t duration_limit; /* no schedule may take more; 0: no limit */
  int64_t energy_limit;
  int32_t copies; /* remora_copies */
} remora_device_problem;

/* Reads only time_limit, work_limit, threads and seed of the options. `options`, `stop` and `warm_start` may be NULL; the latter is a
 * schedule of the same graph under any budgets. Infeasible and unknown are results, not errors. Prints nothing. */
REMORA_EXPORT remora_status remora_device_solve(const remora_device_graph* graph, const remora_device_problem* problem,
                                                const remora_options* options, const remora_stop* stop,
                                                const remora_device_schedule* warm_start,
                                                remora_device_schedule** made);

/* As remora_callbacks of <remora.h>: begin with {0}, say the size. Of remora_progress, duration and lower_bound are amounts of the
 * objective; in phase 1 no schedule is known, and the duration is INT64_MAX; peak and budget are 0, since each device has its own. */
typedef struct remora_device_callbacks {
  size_t size;   /* sizeof(remora_device_callbacks) */
  void* context; /* handed to the functions */
  /* For every better schedule or bound. Not 0 ends the search with the best schedule; nothing is called after that. */
  int (*progress)(void* context, const remora_progress* progress);
  /* Every schedule that costs less than the one before. Valid during the call. */
  void (*incumbent)(void* context, const remora_device_schedule* schedule);
  remora_stop* stop;
  /* As progress, some ten times a second, with or without update. */
  int (*heartbeat)(void* context, const remora_progress* progress);
} remora_device_callbacks;

/* As remora_device_solve; `callbacks` may be NULL. */
REMORA_EXPORT remora_status remora_device_solve_with_callbacks(
    const remora_device_graph* graph, const remora_device_problem* problem, const remora_options* options,
    const remora_device_callbacks* callbacks, const remora_device_schedule* warm_start, remora_device_schedule** made);

/* Format remora-schedule 2. */
REMORA_EXPORT remora_status remora_device_schedule_read(const remora_device_graph* graph, const char* path,
                                                        remora_device_schedule** made);
REMORA_EXPORT remora_status remora_device_schedule_parse(const remora_device_graph* graph, const char* text,
                                                         size_t size, remora_device_schedule** made);
REMORA_EXPORT remora_status remora_device_schedule_write(const remora_device_schedule* schedule, const char* path);
REMORA_EXPORT remora_status remora_device_schedule_text(const remora_device_schedule* schedule, char** made);
/* Why it has no steps and what is worth a try, in one line, as remora_schedule_refusal_text; empty where it has some. */
REMORA_EXPORT remora_status remora_device_schedule_refusal_text(const remora_device_schedule* schedule, char** made);
REMORA_EXPORT void remora_device_schedule_free(remora_device_schedule* schedule);
/* As remora_schedule_verify. */
REMORA_EXPORT remora_status remora_device_schedule_verify(const remora_device_schedule* schedule,
                                                          const remora_device_graph* graph, int* valid, char** made);

/* Say the size first; the library fills what both know. */
typedef struct remora_device_facts {
  size_t size;
  int32_t result;    /* remora_result */
  int32_t objective; /* remora_objective */
  int64_t duration;
  int64_t energy;
  int64_t lower_bound;       /* of the objective */
  int64_t baseline_duration; /* without memory limits, or a bound on it */
  size_t step_count;
  double seconds;
  int64_t work;
  int32_t copies; /* remora_copies */
  /* Where max_computes was 0: no schedule with at most so many runs of an op costs less; INT_MAX for any number. Else, and where
   * nothing is proved, 0. */
  int32_t optimal_for_max_computes;
} remora_device_facts;
REMORA_EXPORT remora_status remora_device_schedule_facts(const remora_device_schedule* schedule,
                                                         remora_device_facts* facts);
/* Bytes on a device; -1 for no limit, and for an unknown device. */
REMORA_EXPORT int64_t remora_device_schedule_budget(const remora_device_schedule* schedule, int32_t device);
REMORA_EXPORT int64_t remora_device_schedule_peak(const remora_device_schedule* schedule, int32_t device);

/* A run of `op` on `device`, or a copy of `tensor` from `device` to `to`; then releases. Say the size first. */
typedef struct remora_device_step {
  size_t size;
  int32_t op;     /* -1 of a copy */
  int32_t tensor; /* -1 of a run */
  int32_t device;
  int32_t to; /* -1 of a run */
  size_t release_count;
} remora_device_step;
REMORA_EXPORT remora_status remora_device_schedule_step(const remora_device_schedule* schedule, size_t step,
                                                        remora_device_step* made);
REMORA_EXPORT remora_status remora_device_schedule_release(const remora_device_schedule* schedule, size_t step,
                                                           size_t index, int32_t* tensor, int32_t* device);

#ifdef __cplusplus
}
#endif

#endif
