// What a pass does once for each window: what it reads, where its rows go, their order.
#pragma once

#include "fastload/base/status.h"
#include "fastload/collate/window.h"
#include "fastload/scan/delivery.h"
#include "fastload/scan/pass.h"

namespace fastload {

// Fills in all of the window but its streams and its order.
void SetUpWindow(const Pass& pass, Window* window);

// Makes the streams of all column chunks that the window begins. No stream starts.
Status MakeStreams(const Pass& pass, Window* window);

// Computes the order of a shuffled window's rows. `window->shuffle` may hold what an
// earlier window has left, whose memory is then used again.
void ComputeOrder(const Pass& pass, Window* window);

// Gives the parts of the window's batches their memory: rows of the batch's own memory
// where its size is known, else memory of their own. The sizes of ragged outputs are
// counted.
Status AllocateParts(const Pass& pass, Delivery* delivery, Window* window);

}  // namespace fastload
