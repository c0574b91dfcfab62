/* SPDX-License-Identifier: Apache-2.0
 *
 * Remora's C interface.
 *
 *     remora_graph* graph = NULL;
 *     remora_graph_new("step", &graph);
 *     int32_t a, f;
 *     remora_graph_add_tensor(graph, "a", 4096, 0, &a);
 *     remora_graph_add_op(graph, "f", 120, NULL, 0, &a, 1, &f);
 *     ...
 *     remora_instance* instance = NULL;
 *     if (remora_instance_new(graph, "80%", 2, REMORA_ORDER_INPUT, &instance) != REMORA_OK) puts(remora_last_error());
 *
 * Handles are opaque. What a function gives through its last parameter, `**made`, belongs to the caller, who frees it by
 * the function that ends in `_free`; NULL may be freed. On any status but REMORA_OK nothing was made and nothing changed.
 *
 * Every call is safe from any thread. Calls on different handles are independent; several threads may use one handle
 * as long as none of them changes or frees it. remora_instance and remora_schedule never change. remora_stop_request
 * may be called from anywhere, signal handlers included.
 *
 * Ids of ops and tensors count from 0 in the order of adding. Ops are added in an order in which they can run: the
 * input order. Sizes are bytes; durations are in any one unit. Texts are UTF-8.
 *
 * Structs that callers fill or read begin with their size and grow at their end only, so that a program goes on with a later
 * library: what it does not know is left out.
 *
 * <remora_devices.h> has graphs over several devices. <remora_c.hpp> is all of it for C++ without exceptions;
 * docs/guide/embedding.md has whole programs.
 */
#ifndef REMORA_H
#define REMORA_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define REMORA_EXPORT __attribute__((visibility("default")))
#else
#define REMORA_EXPORT
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* How a call ended. */
typedef enum remora_status {
  REMORA_OK = 0,
  /* Invalid input: a graph that is not valid, an option out of range, an unknown id, a NULL where a
   * value is needed, a file that can't be read or written. */
  REMORA_BAD_INPUT = 1,
  REMORA_OUT_OF_MEMORY = 2,
  /* An internal error: a fault of Remora, not of what was given. */
  REMORA_INTERNAL = 3
} remora_status;

/* Status of a problem. */
typedef enum remora_result {
  REMORA_OPTIMAL = 0,    /* the schedule is proved optimal: where max_computes was 0, for any number of computes */
  REMORA_FEASIBLE = 1,   /* a schedule within the budget */
  REMORA_INFEASIBLE = 2, /* proved: there is none */
  REMORA_UNKNOWN = 3     /* none was found within the limits */
} remora_result;

typedef enum remora_order {
  REMORA_ORDER_INPUT = 0, /* first computes follow the input order */
  REMORA_ORDER_FREE = 1,  /* any order */
  REMORA_ORDER_AUTO = 2   /* free if a quick search, limited by work, finds another order that holds the budget or needs
                             clearly less memory, else input; the schedule's order says which */
} remora_order;

typedef enum remora_phase {
  REMORA_PHASE_NONE = 0,
  REMORA_PHASE_FORWARD = 1,
  REMORA_PHASE_LOSS = 2,
  REMORA_PHASE_BACKWARD = 3
} remora_phase;

typedef struct remora_graph remora_graph;
typedef struct remora_instance remora_instance;
typedef struct remora_options remora_options;
typedef struct remora_schedule remora_schedule;
typedef struct remora_stop remora_stop;
typedef struct remora_curve remora_curve;
typedef struct remora_ordering remora_ordering;

/* Such as "1.2.3". Owned by the library, valid forever. */
REMORA_EXPORT const char* remora_version(void);

/* One line: which argument, what is wrong, and what to do, of the last call in this thread that did not end with
 * REMORA_OK; "" if there was none. Owned by the library, valid until the thread's next such call. */
REMORA_EXPORT const char* remora_last_error(void);

/* Frees a text that a function gave away (`**made`). */
REMORA_EXPORT void remora_text_free(char* text);

/* ---- Graph: what is computed ---- */

REMORA_EXPORT remora_status remora_graph_new(const char* name, remora_graph** made);
/* From a file, or a text of `size` bytes, in the format remora-graph. Here as everywhere the path "-" is standard
 * input or output. */
REMORA_EXPORT remora_status remora_graph_read(const char* path, remora_graph** made);
REMORA_EXPORT remora_status remora_graph_parse(const char* text, size_t size, remora_graph** made);
REMORA_EXPORT void remora_graph_free(remora_graph* graph);
REMORA_EXPORT remora_status remora_graph_write(const remora_graph* graph, const char* path);

/* Bytes always resident in addition to the graph's tensors: parameters, optimizer state. */
REMORA_EXPORT remora_status remora_graph_set_fixed_memory(remora_graph* graph, int64_t bytes);
/* `all` not 0: a run allocates all its outputs again, as PyTorch does, not only those that are not resident. Schedules
 * found are the same; what a replay says of one that keeps an older copy is not. */
REMORA_EXPORT remora_status remora_graph_set_recompute_allocates_all(remora_graph* graph, int all);

/* `name`: not empty, and no other tensor's. `keep` not 0: must be resident when the schedule ends. A tensor that no op
 * writes is an input of the graph: always resident, and counted. `id` may be NULL. */
REMORA_EXPORT remora_status remora_graph_add_tensor(remora_graph* graph, const char* name, int64_t bytes, int keep,
                                                    int32_t* id);
/* Reads and writes tensors that were added before, one or more of the latter, which no other op writes and no op that was
 * added before reads. `name`: not empty, and no other op's. The arrays are copied and may be NULL where their count
 * is 0. `id` may be NULL. */
REMORA_EXPORT remora_status remora_graph_add_op(remora_graph* graph, const char* name, int64_t duration,
                                                const int32_t* inputs, size_t input_count, const int32_t* outputs,
                                                size_t output_count, int32_t* id);

/* Further properties of an op. */
REMORA_EXPORT remora_status remora_graph_set_op_type(remora_graph* graph, int32_t op, const char* type);
/* Scratch memory that lives only while the op runs. */
REMORA_EXPORT remora_status remora_graph_set_workspace(remora_graph* graph, int32_t op, int64_t bytes);
/* Maximum runs, the first included; 1 for random and effectful ops, which run exactly once. */
REMORA_EXPORT remora_status remora_graph_set_max_computes(remora_graph* graph, int32_t op, int32_t computes);
/* The part of a training step, and the forward op whose gradient this op computes, or -1: groups are found by it. */
REMORA_EXPORT remora_status remora_graph_set_phase(remora_graph* graph, int32_t op, remora_phase phase,
                                                   int32_t backward_of);
/* Order only: the first compute of `before`, which was added before, comes before the first one of `op`. */
REMORA_EXPORT remora_status remora_graph_add_after(remora_graph* graph, int32_t op, int32_t before);
/* The op's output takes over its input's storage where a run releases that: the larger size counts, not both. Each of
 * them in one pair at most. */
REMORA_EXPORT remora_status remora_graph_add_in_place(remora_graph* graph, int32_t op, int32_t output, int32_t input);
/* Another way to run the op: one size for each of its outputs. Mode 0 has the op's own amounts; the others are numbered
 * from 1. `mode` may be NULL. */
REMORA_EXPORT remora_status remora_graph_add_mode(remora_graph* graph, int32_t op, int64_t duration, int64_t workspace,
                                                  const int64_t* output_sizes, size_t output_count, int32_t* mode);
/* The mode does not read this input of the op. */
REMORA_EXPORT remora_status remora_graph_add_unread(remora_graph* graph, int32_t op, int32_t mode, int32_t tensor);
/* Each run of the op takes the mode of that run of `leader` that serves its inputs. Both have all their modes before. */
REMORA_EXPORT remora_status remora_graph_set_follows(remora_graph* graph, int32_t op, int32_t leader);

REMORA_EXPORT int32_t remora_graph_op_count(const remora_graph* graph);
REMORA_EXPORT int32_t remora_graph_tensor_count(const remora_graph* graph);
/* NULL for an unknown id. Owned by the graph, valid until it is changed or freed. */
REMORA_EXPORT const char* remora_graph_op_name(const remora_graph* graph, int32_t op);
REMORA_EXPORT const char* remora_graph_tensor_name(const remora_graph* graph, int32_t tensor);
/* -1, NULL or 0 inputs and outputs for an unknown id or index. */
REMORA_EXPORT int64_t remora_graph_tensor_size(const remora_graph* graph, int32_t tensor);
REMORA_EXPORT int remora_graph_tensor_keep(const remora_graph* graph, int32_t tensor);
REMORA_EXPORT const char* remora_graph_op_type(const remora_graph* graph, int32_t op);
REMORA_EXPORT int64_t remora_graph_op_duration(const remora_graph* graph, int32_t op);
REMORA_EXPORT int64_t remora_graph_op_workspace(const remora_graph* graph, int32_t op);
REMORA_EXPORT size_t remora_graph_op_input_count(const remora_graph* graph, int32_t op);
REMORA_EXPORT int32_t remora_graph_op_input(const remora_graph* graph, int32_t op, size_t index);
REMORA_EXPORT size_t remora_graph_op_output_count(const remora_graph* graph, int32_t op);
REMORA_EXPORT int32_t remora_graph_op_output(const remora_graph* graph, int32_t op, size_t index);
/* -1 for an unknown name. */
REMORA_EXPORT int32_t remora_graph_find_op(const remora_graph* graph, const char* name);
REMORA_EXPORT int32_t remora_graph_find_tensor(const remora_graph* graph, const char* name);

/* ---- Problem: a graph, checked, under a budget ---- */

/* `budget`: bytes ("123456", "12GiB": everything, fixed memory included), or a percentage ("80%") of the input order's
 * peak without recomputation, above fixed memory. `max_computes`: maximum runs of every op, the first included; 0: two,
 * and more if the budget needs them or they shorten the schedule, which has the number. The graph is copied. REMORA_BAD_INPUT for a graph that is
 * not valid. */
REMORA_EXPORT remora_status remora_instance_new(const remora_graph* graph, const char* budget, int32_t max_computes,
                                                remora_order order, remora_instance** made);
REMORA_EXPORT void remora_instance_free(remora_instance* instance);
REMORA_EXPORT int64_t remora_instance_budget(const remora_instance* instance);
/* Every op once, in the input order. */
REMORA_EXPORT int64_t remora_instance_baseline_duration(const remora_instance* instance);
REMORA_EXPORT int64_t remora_instance_baseline_peak(const remora_instance* instance);

/* ---- Options: how it is solved ---- */

REMORA_EXPORT remora_status remora_options_new(remora_options** made);
REMORA_EXPORT void remora_options_free(remora_options* options);
/* By the names of the command line: "time_limit" (or "time-limit") "10", "threads" "1", "strategy" "auto" ... */
REMORA_EXPORT remora_status remora_options_set(remora_options* options, const char* name, const char* value);
/* The value as text. Free it with remora_text_free. */
REMORA_EXPORT remora_status remora_options_get(const remora_options* options, const char* name, char** made);
/* Names and help, from 0; NULL beyond the last one. Owned by the library, valid forever. */
REMORA_EXPORT const char* remora_option_name(size_t index);
REMORA_EXPORT const char* remora_option_help(size_t index);

/* ---- Solving ---- */

/* Ends solves that were given it, with the incumbent. May serve many solves, at once and later. */
REMORA_EXPORT remora_status remora_stop_new(remora_stop** made);
REMORA_EXPORT void remora_stop_free(remora_stop* stop);
REMORA_EXPORT void remora_stop_request(remora_stop* stop);
REMORA_EXPORT void remora_stop_reset(remora_stop* stop);

typedef enum remora_event {
  REMORA_EVENT_START = 0,    /* the search begins, from the reported schedule */
  REMORA_EVENT_PHASE = 1,    /* a schedule holds the budget, and phase 2 begins */
  REMORA_EVENT_SCHEDULE = 2, /* a better schedule, perhaps with a better bound */
  REMORA_EVENT_BOUND = 3,    /* a better bound */
  REMORA_EVENT_ROUND = 4     /* a round is over, with or without update */
} remora_event;

typedef struct remora_progress {
  size_t size; /* of the struct that the library fills: at least what this header knows, if the library is not older */
  double seconds;
  int32_t phase; /* 1: looking for a schedule within the budget; 2: shortening it */
  int64_t duration;
  int64_t peak;
  int64_t lower_bound;
  int64_t work;
  const char* source; /* who found it; valid during the call */
  int32_t event;      /* remora_event */
  int64_t budget;     /* that the schedule is for; in a sweep one of many */
} remora_progress;

/* Begin with {0} and say the size: remora_callbacks callbacks = {0}; callbacks.size = sizeof callbacks. All else may stay
 * NULL. The functions are called from the thread that called, one at a time; they must not end by an exception or
 * longjmp. */
typedef struct remora_callbacks {
  size_t size;   /* sizeof(remora_callbacks) */
  void* context; /* handed to the functions */
  /* For every better schedule or bound. Not 0 ends the search with the incumbent; nothing is called after that. */
  int (*progress)(void* context, const remora_progress* progress);
  /* Every schedule within the budget that is better than the one before. Valid during the call: remora_schedule_copy
   * keeps it. */
  void (*incumbent)(void* context, const remora_schedule* schedule);
  remora_stop* stop;
  /* As progress, also after each round without update: some ten times a second. */
  int (*heartbeat)(void* context, const remora_progress* progress);
} remora_callbacks;

/* `options`, `callbacks` and `warm_start` may be NULL: defaults, none, the input order. `warm_start`: a schedule of the
 * same graph under any budget to begin from. Infeasible and unknown are results, not errors: the call then ends with
 * REMORA_OK and a schedule without steps. Prints nothing. */
REMORA_EXPORT remora_status remora_solve(const remora_instance* instance, const remora_options* options,
                                         const remora_callbacks* callbacks, const remora_schedule* warm_start,
                                         remora_schedule** made);

/* The same with addresses in one arena, which stays with the fixed memory within the budget; offsets are multiples of
 * `alignment`, from 1 to 2^30. Unknown also where no schedule was found whose buffers pack. */
REMORA_EXPORT remora_status remora_solve_with_addresses(const remora_instance* instance, const remora_options* options,
                                                        int64_t alignment, const remora_callbacks* callbacks,
                                                        const remora_schedule* warm_start, remora_schedule** made);

/* ---- Many budgets ---- */

/* The curve of memory against time of the instance's graph: schedules for the `count` budgets, each as remora_instance_new
 * takes it, or (0, NULL) for up to `points` budgets that bisection chooses (0: 20). The time limit and the work limit
 * are of the whole sweep; the instance's own budget is not used. Of the callbacks, `progress` is called with each
 * budget that was worked on (its result is ignored: request the stop to end the sweep); `stop` ends the sweep with what is known. In input
 * order only. */
REMORA_EXPORT remora_status remora_sweep(const remora_instance* instance, const remora_options* options,
                                         const char* const* budgets, size_t count, int32_t points,
                                         const remora_callbacks* callbacks, remora_curve** made);
REMORA_EXPORT void remora_curve_free(remora_curve* curve);
/* Format remora-curve 1. */
REMORA_EXPORT remora_status remora_curve_write(const remora_curve* curve, const char* path);
/* Points by budget, ascending. NULL for an index beyond: owned by the curve, and without steps where none was found. Budget,
 * result, duration, peak and bound are the schedule's. */
REMORA_EXPORT size_t remora_curve_point_count(const remora_curve* curve);
REMORA_EXPORT const remora_schedule* remora_curve_schedule(const remora_curve* curve, size_t point);
/* Where the curve bends most: a point's index, or -1. */
REMORA_EXPORT int64_t remora_curve_knee(const remora_curve* curve);
/* Proved: no schedule stays within less, with as many runs per op as the curve's points have at most. */
REMORA_EXPORT int64_t remora_curve_least_budget(const remora_curve* curve);

/* ---- Another order, each op once ---- */

/* An order of the instance's ops of small peak. `options`: time_limit, work_limit, threads and seed. `target`: an order of
 * this peak will do, as bytes or percentage; NULL for the lowest. `stop` (may be NULL) ends the search with the best
 * order so far. */
REMORA_EXPORT remora_status remora_order_ops(const remora_instance* instance, const remora_options* options,
                                             const char* target, remora_stop* stop, remora_ordering** made);
REMORA_EXPORT void remora_ordering_free(remora_ordering* ordering);
/* The op at a place of the order; -1 for a place beyond the last. */
REMORA_EXPORT size_t remora_ordering_op_count(const remora_ordering* ordering);
REMORA_EXPORT int32_t remora_ordering_op(const remora_ordering* ordering, size_t place);
/* Its peak; no order has a lower one than the bound. */
REMORA_EXPORT int64_t remora_ordering_peak(const remora_ordering* ordering);
REMORA_EXPORT int64_t remora_ordering_lower_bound(const remora_ordering* ordering);
/* The graph with its ops in this order: op i is what was op ops[i]; tensors keep their ids. */
REMORA_EXPORT remora_status remora_graph_reordered(const remora_graph* graph, const int32_t* ops, size_t count,
                                                   remora_graph** made);

/* ---- Placement: offsets in one arena ---- */

/* Memory that is held from time `lower` up to but without `upper`, except in the gaps. */
typedef struct remora_buffer {
  int64_t lower;
  int64_t upper;
  int64_t size;
  int64_t alignment;   /* its offset is a multiple of it; at least 1 */
  int64_t offset;      /* where it has to lie; -1: anywhere */
  const int64_t* gaps; /* beginning and end of each, in order; may be NULL where there is none */
  size_t gap_count;
} remora_buffer;

/* Offsets such that no two buffers share a byte at any time, in the smallest arena, or with a `capacity` that is not
 * negative in one that it holds. Of the options it reads time_limit, work_limit, threads and seed; `options`, `stop` and
 * the pointers behind them may be NULL. `result`: optimal (no arena is smaller, or within the capacity), feasible,
 * infeasible (proved), or unknown: those of the smallest arena found, which is above the capacity. `offsets`: one for each
 * buffer, written unless infeasible. `arena`: its end; `lower_bound`: no arena is smaller. */
REMORA_EXPORT remora_status remora_place(const remora_buffer* buffers, size_t count, int64_t capacity,
                                         const remora_options* options, const remora_stop* stop, remora_result* result,
                                         int64_t* offsets, int64_t* arena, int64_t* lower_bound);

/* A copy of the schedule with addresses, in the smallest arena; without them where that and the fixed memory exceed its
 * budget. All else as above. */
REMORA_EXPORT remora_status remora_schedule_place(const remora_schedule* schedule, const remora_graph* graph,
                                                  int64_t alignment, const remora_options* options,
                                                  const remora_stop* stop, remora_result* result, int64_t* arena,
                                                  int64_t* lower_bound, remora_schedule** made);

/* ---- Schedule: the answer ---- */

/* The schedule that computes these ops one after the other and releases every tensor after its last use: evaluated, its
 * result REMORA_FEASIBLE if it fits within the budget, otherwise REMORA_UNKNOWN without steps. REMORA_BAD_INPUT for a sequence
 * that is not one of the problem. */
REMORA_EXPORT remora_status remora_schedule_of_sequence(const remora_instance* instance, const int32_t* ops,
                                                        size_t count, remora_schedule** made);
/* Format remora-schedule 1, or with addresses 2. */
REMORA_EXPORT remora_status remora_schedule_read(const remora_graph* graph, const char* path, remora_schedule** made);
REMORA_EXPORT remora_status remora_schedule_parse(const remora_graph* graph, const char* text, size_t size,
                                                  remora_schedule** made);
REMORA_EXPORT remora_status remora_schedule_copy(const remora_schedule* schedule, remora_schedule** made);
REMORA_EXPORT remora_status remora_schedule_write(const remora_schedule* schedule, const remora_graph* graph,
                                                  const char* path);
REMORA_EXPORT remora_status remora_schedule_text(const remora_schedule* schedule, const remora_graph* graph,
                                                 char** made);
REMORA_EXPORT void remora_schedule_free(remora_schedule* schedule);

/* Replays the schedule by the format's rules, independently of the solver. `made` (may be NULL): NULL for a valid one,
 * otherwise what is wrong, one line per fault, to be freed with remora_text_free. `valid` must not be NULL. */
REMORA_EXPORT remora_status remora_schedule_verify(const remora_schedule* schedule, const remora_graph* graph,
                                                   int* valid, char** made);

REMORA_EXPORT remora_result remora_schedule_result(const remora_schedule* schedule);
REMORA_EXPORT int64_t remora_schedule_budget(const remora_schedule* schedule);
/* Duration of the steps; 0 if there are none. */
REMORA_EXPORT int64_t remora_schedule_duration(const remora_schedule* schedule);
REMORA_EXPORT int64_t remora_schedule_peak(const remora_schedule* schedule);
/* No schedule of the problem is shorter; where max_computes was 0, none with any number of runs per op. */
REMORA_EXPORT int64_t remora_schedule_lower_bound(const remora_schedule* schedule);
/* If max_computes was 0: no schedule with at most so many runs per op is shorter; INT_MAX for any number. Otherwise, and
 * if nothing is proved, 0. */
REMORA_EXPORT int remora_schedule_optimal_for_max_computes(const remora_schedule* schedule);
/* duration / baseline - 1; (duration - lower bound) / duration. */
REMORA_EXPORT double remora_schedule_overhead(const remora_schedule* schedule);
REMORA_EXPORT double remora_schedule_gap(const remora_schedule* schedule);

/* Why a schedule has no steps. */
typedef enum remora_reason {
  REMORA_REASON_NONE = 0,    /* it has some */
  REMORA_REASON_OP = 1,      /* one op alone needs more than the budget, in any order and however often ops run */
  REMORA_REASON_KEPT = 2,    /* so do the tensors that must be kept, after the last op */
  REMORA_REASON_EVENT = 3,   /* what must be resident while one op runs, in this order and with so many runs per op */
  REMORA_REASON_SEARCH = 4,  /* proved by more than one event, for this order and so many runs per op */
  REMORA_REASON_PACKING = 5, /* schedules were found, but none whose buffers fit into one arena */
  REMORA_REASON_LIMITS = 6,  /* none was found within the limits */
  REMORA_REASON_NO_WAY = 7   /* over several devices: something that is needed cannot be copied to where it has to be */
} remora_reason;

typedef struct remora_refusal {
  size_t size; /* sizeof(remora_refusal) */
  remora_reason reason;
  int32_t op;          /* of the first three reasons; else -1 */
  int64_t needed;      /* bytes resident at once while, or after, it runs, fixed memory included; else 0 */
  int64_t lower_bound; /* no smaller budget is feasible, in this order and with so many runs per op */
  int64_t enough;      /* a budget for which there is a schedule; 0 where none is known */
} remora_refusal;

/* Fills `filled`, whose size says how much of it the caller knows. `graph`: the schedule's. */
REMORA_EXPORT remora_status remora_schedule_refusal(const remora_schedule* schedule, const remora_graph* graph,
                                                    remora_refusal* filled);
/* The same in one line, with what could be done: "" where there is a schedule. */
REMORA_EXPORT remora_status remora_schedule_refusal_text(const remora_schedule* schedule, const remora_graph* graph,
                                                         char** made);

/* Wall-clock time and units of work of the solve that gave it. */
REMORA_EXPORT double remora_schedule_seconds(const remora_schedule* schedule);
REMORA_EXPORT int64_t remora_schedule_work(const remora_schedule* schedule);

/* Step i: compute an op, then release tensors. -1, or no tensors, for a step beyond the last. */
REMORA_EXPORT size_t remora_schedule_step_count(const remora_schedule* schedule);
REMORA_EXPORT int32_t remora_schedule_step_op(const remora_schedule* schedule, size_t step);
REMORA_EXPORT int32_t remora_schedule_step_mode(const remora_schedule* schedule, size_t step);
REMORA_EXPORT size_t remora_schedule_step_release_count(const remora_schedule* schedule, size_t step);
REMORA_EXPORT int32_t remora_schedule_step_release(const remora_schedule* schedule, size_t step, size_t index);

/* Addresses; -1 where there are none. The arena's size; where a tensor lies that this step allocates; where the step's
 * workspace lies; where an input of the graph lies, throughout. What has size 0 lies nowhere. */
REMORA_EXPORT int64_t remora_schedule_arena(const remora_schedule* schedule);
REMORA_EXPORT int64_t remora_schedule_offset(const remora_schedule* schedule, size_t step, int32_t tensor);
REMORA_EXPORT int64_t remora_schedule_workspace_offset(const remora_schedule* schedule, size_t step);
REMORA_EXPORT int64_t remora_schedule_input_offset(const remora_schedule* schedule, int32_t tensor);

#ifdef __cplusplus
}
#endif

#endif
