// The requests that bring the columns of a window from a store.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "fastload/collate/window.h"
#include "fastload/scan/pass.h"
#include "fastload/source/file.h"

namespace fastload {

// By file of a store, what offset indexes are read from.
using IndexFiles = std::map<int32_t, std::shared_ptr<File>>;

// Asks for the offset indexes of all columns and pieces of the window, in one go. What
// can't be told is told where it is read.
IndexFiles AskForIndexes(const Pass& pass, const Window& window);

// Makes the streams of remote files, whose pages are known.
void MakeRemoteStreams(const Pass& pass, Window* window);

}  // namespace fastload
