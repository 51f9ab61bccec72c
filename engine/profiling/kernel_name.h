#ifndef ENGINE_PROFILING_KERNEL_NAME_H
#define ENGINE_PROFILING_KERNEL_NAME_H

enum { KERNEL_NAME_BYTES = 64 };

/* Shortens a mangled C++ kernel name to its identifier, without namespaces and parameters.
   short_name: (KERNEL_NAME_BYTES). */
void kernel_name_short(const char *name, char *short_name);

#endif
