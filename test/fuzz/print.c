/* SPDX-License-Identifier: MIT */
/*
 * print.c - the text of a program, for people.
 */
#include "program.h"

static void print_node(FILE *to, int index, int indent);

static void print_op(FILE *to, int i, int indent)
{
    const struct op *op = &prog.op[i];

    if (op->skip)
        return;
    bool target = op->what == OP_cancel || op->what == OP_join_any || op->what == OP_look ||
                  op->what == OP_emit || op->what == OP_lease || op->what == OP_listen ||
                  op->what == OP_complete || op->what == OP_untimer || op->what == OP_unpark;
    fprintf(to, "%*s[%d] %s which %d how %d time %u", indent, "", i, op_name[op->what], op->which,
            op->how, op->time);
    if (target)
        fprintf(to, " target %d", op->node);
    fputc('\n', to);
    if (target || op->node < 0)
        return;
    int n = op->what == OP_collect ? op->count : 1 + (op->what == OP_group ? op->count : 0);
    for (int k = 0; k < n; k++)
        print_node(to, op->node + k, indent + 4);
}

static void print_node(FILE *to, int index, int indent)
{
    static const char *const kinds[] = { "body", "scope", "group", "promise",
                                         "task", "piece", "thread" };
    const struct node *n = &prog.node[index];

    fprintf(to, "%*s%d %s", indent, "", index, kinds[n->kind]);
    if (n->flags)
        fprintf(to, "%s%s%s%s%s", n->flags & KC_JOB_SUPERVISOR ? " SUPERVISOR" : "",
                n->flags & KC_JOB_DETACHED ? " DETACHED" : "", n->flags & KC_JOB_NOW ? " NOW" : "",
                n->flags & KC_JOB_UNWIND ? " UNWIND" : "",
                n->flags & KC_JOB_MIGRATE ? " MIGRATE" : "");
    if (n->kind != PIECE)
        fprintf(to, " where %d timeout %u grace %u max %d signal %d returns %d%s%s", n->where,
                n->timeout, n->grace, n->max_running, n->signal, n->rc, n->obeys ? " obeys" : "",
                n->interval ? " interval" : "");
    fputc('\n', to);
    for (int i = n->first; i < n->first + n->ops; i++)
        print_op(to, i, indent + 2);
}

void program_print(FILE *to)
{
    fprintf(to, "program %llu: %s, workers %d, %s%s%s%s\n", (unsigned long long)prog.seed,
            prog.is_virtual ? "virtual time" : "real time", prog.workers,
            prog.uses_run ? "kc_run" : "kc_sched_run", prog.abrupt ? ", destroyed half-way" : "",
            prog.calm ? ", no cancels" : "", prog.faults ? ", allocations fail" : "");
    print_node(to, 0, 0);
    for (int i = 0; i < prog.nodes; i++)
        if (prog.node[i].kind == THREAD)
            print_node(to, i, 0);
}
