#ifndef BENCH_RECORD_KERNEL_NAME_H
#define BENCH_RECORD_KERNEL_NAME_H

enum { KERNEL_NAME_BYTES = 64 };

/* A kernel's name without the namespaces and parameters that the C++ compiler has mangled into it;
   short_name: (KERNEL_NAME_BYTES). */
void kernel_name_short(const char *name, char *short_name);

#endif
