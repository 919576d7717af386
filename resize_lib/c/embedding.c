/* What libdq does without Python: start it, keep the last error, and stand before the BLACS.

   The functions of dq.h are written in Python (binding.py) and reached through cffi; build.py makes
   a guard of each, which calls `dqc_ready` first. */

#define _GNU_SOURCE
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "dq.h"
#include "dqc.h"

/* The BLACS size their tables by what Cblacs_pinfo tells them first: MPI_COMM_WORLD, where a job
   can start with one rank. This many ranks a job may grow to; each costs 4 bytes a message buffer. */
#define BLACS_RANKS_MAX 4096

static dq_mode mode = DQ_ABORT;
static char last_error[4096] = "";
static int opened = 0;
static int my_rank = 0, job_size = 1;

void dq_on_error(dq_mode wanted) { mode = wanted; }
const char *dq_error(void) { return last_error; }
int dqc_mode(void) { return mode; }

void dqc_set_error(const char *text) { snprintf(last_error, sizeof last_error, "%s", text); }

void dqc_set_place(int rank, int size)
{
    my_rank = rank;
    job_size = size;
}

/* A mistake that Python cannot be told of. The keeper, or mpiexec, ends the others. */
static void failed(const char *text)
{
    dqc_set_error(text);
    if (mode == DQ_RETURN) return;
    fprintf(stderr, "dq: %s\n", text);
    exit(1);
}

int dqc_ready(const char *function)
{
    char text[200];
    if (opened) return 1;
    snprintf(text, sizeof text, "%s: no session is open: call dq_open first", function);
    failed(text);
    return 0;
}

/* The interpreter that built this library, with the packages of its environment. */
static int start_python(void)
{
    PyConfig config;
    PyStatus status;
    char text[600];
    if (Py_IsInitialized()) return 1;
    PyConfig_InitPythonConfig(&config);
    config.parse_argv = 0;
    config.install_signal_handlers = 0; /* Ctrl-C and the rest stay the program's */
    config.buffered_stdio = 1;
    status = PyConfig_SetBytesString(&config, &config.program_name, DQ_PYTHON);
    if (!PyStatus_Exception(status)) status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    if (!PyStatus_Exception(status)) {
        PyEval_SaveThread(); /* cffi takes the lock at each call */
        return 1;
    }
    snprintf(text, sizeof text,
             "dq_open: the Python that built libdq does not start (%s): %s. Build libdq again:"
             " python -m resize_lib.c build -o FOLDER",
             DQ_PYTHON, status.err_msg ? status.err_msg : "no reason given");
    failed(text);
    return 0;
}

dq_t *dq_open(int *argc, char ***argv)
{
    dq_t *dq;
    if (!start_python()) return NULL;
    last_error[0] = 0;
    dq = dqpy_open(argc, argv);
    if (dq) opened = 1;
    else if (!last_error[0])
        failed("dq_open: libdq cannot load its Python part (above): build it again, by an"
               " interpreter that has dq-mpi[c]: python -m resize_lib.c build -o FOLDER");
    return dq;
}

/* Calls of the BLACS themselves, and of a program that asks how many ranks there are. */
static void pinfo(const char *name, int *rank, int *size)
{
    void (*real)(int *, int *) = (void (*)(int *, int *))dlsym(RTLD_NEXT, name);
    int *tables = (int *)dlsym(RTLD_DEFAULT, "BI_Np");
    if (!real) {
        fprintf(stderr, "dq: %s: libdq must come before ScaLAPACK, and that be a shared library\n",
                name);
        exit(1);
    }
    real(rank, size);
    if (!opened || !tables) return;
    if (*tables < BLACS_RANKS_MAX) *tables = BLACS_RANKS_MAX;
    if (size != tables) {
        *rank = my_rank;
        *size = job_size;
    }
}

void Cblacs_pinfo(int *rank, int *size) { pinfo("Cblacs_pinfo", rank, size); }
void blacs_pinfo_(int *rank, int *size) { pinfo("blacs_pinfo_", rank, size); }
