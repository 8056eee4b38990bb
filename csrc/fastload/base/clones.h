// Functions that are compiled for several processors, of which the best one runs.
#pragma once

// Clones are resolved through ifunc, which GCC offers for ELF only; sanitizers run
// before it is set up.
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && \
    defined(__ELF__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define FASTLOAD_CLONES \
  __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define FASTLOAD_CLONES
#endif
#define FASTLOAD_INLINE inline __attribute__((always_inline))
