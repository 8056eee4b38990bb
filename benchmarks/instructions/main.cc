// Runs the hot kernels of the core, one after another, for callgrind to count their
// instructions; see instruction_counts.py. Prints a line for each: its name, and how many
// values or bytes it works on.

#include "count.h"

int main() {
  fastload::instructions::CountColumns();
  fastload::instructions::CountKernels();
  fastload::instructions::CountPasses();
  return 0;
}
