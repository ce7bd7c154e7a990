// SPDX-License-Identifier: MIT
#ifndef CAIRN_AGENT_INTERPOSE_PROCESS_CHILD_CPU_H
#define CAIRN_AGENT_INTERPOSE_PROCESS_CHILD_CPU_H

// Before the program runs. Not signal-safe.
void child_cpu_start(void);

// Notes the CPU time of the process until now, when its last instructions are to come.
void child_cpu_say_goodbye(void);

#endif
