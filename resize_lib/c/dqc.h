/* Inside libdq: what its C part and its Python part (binding.py) want of each other. */

#ifndef DQC_H
#define DQC_H

/* [declarations] */
int dqc_mode(void);
void dqc_set_error(const char *text);
void dqc_set_place(int rank, int size);
int dqc_is_before_mpi(void);
/* [end] */

/* 1 if a session is open; else an error. */
int dqc_ready(const char *function);

/* In Python. */
dq_t *dqpy_open(int *argc, char ***argv);

#endif
