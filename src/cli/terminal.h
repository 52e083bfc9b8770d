// Defines how rank 0 of a job that this program starts reaches the terminal. A
// rank's standard output is a pipe that takes whole lines; a bar that moves and
// text that appears word by word need the terminal itself.
#pragma once

namespace zero::cli {

// Called by the program before it starts ranks.
void pass_terminal_on();

// Called by rank 0: the terminal's descriptor, or -1 if there is none.
int inherited_terminal();

} // namespace zero::cli
