// Which windows of a pass exist, what each of them waits for, and what may start when.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fastload/collate/conditions.h"
#include "fastload/collate/window.h"
#include "fastload/scan/delivery.h"
#include "fastload/scan/pass.h"

namespace fastload {

// Owns the windows of a pass until all their batches are delivered. Decides which window
// is prepared, opened and asked for next, as the numbers of windows and bytes allow, and
// which step of a unit may start. It has no thread and no lock of its own: it belongs to
// one Scan, whose mutex guards every member and is held whenever a method is called, but
// for opened_all().
//
// The next step of a unit waits for named conditions (WindowUnit::waits_for). Each is
// added where the step is planned and removed, by Met(), where it has come true; the step
// starts with the last one.
class WindowSchedule {
 public:
  // Has the work done that the schedule decides on; called with the scan's mutex held.
  class Work {
   public:
    virtual ~Work() = default;
    virtual void SubmitPrepare(const std::shared_ptr<Window>& window) = 0;
    virtual void SubmitOpen(const std::shared_ptr<Window>& window) = 0;
    virtual void SubmitTask(const std::shared_ptr<Window>& window, int32_t unit,
                            WindowStep step, int32_t task) = 0;
    // Meets Condition::kStreamsArrived, at once or later.
    virtual void StartStreams(const std::shared_ptr<Window>& window, int32_t unit) = 0;
  };

  // What the members of a schedule held: it is freed without the lock.
  struct Dropped;

  // All are borrowed. Windows that `delivery` doesn't want are not prepared.
  WindowSchedule(const Pass* pass, const Delivery* delivery, Work* work);

  // Starts what `windows` and `bytes`, of those that the options grant, allow.
  void Allow(int64_t windows, int64_t bytes);
  // Opens and prepares the next windows, as far as the limits allow.
  void OpenWindows();

  // The window is described and has its streams. Its steps are planned and its bytes
  // asked for, as the budget allows.
  void Prepared(const std::shared_ptr<Window>& window);
  // The window can't be read.
  void NotPrepared(const std::shared_ptr<Window>& window);
  // The next window may be prepared: this one has asked for all that it needs.
  void PrepareNext();

  // A condition of one unit, or of all units of the window, has come true. Does nothing
  // for units that don't wait for it.
  void Met(const std::shared_ptr<Window>& window, int32_t unit, Condition condition);
  void MetByAll(const std::shared_ptr<Window>& window, Condition condition);
  // The order of the window's rows is known.
  void Ordered(const std::shared_ptr<Window>& window);

  // The last task that decodes the unit has left its cursors for the next window.
  void Carried(const Window& window, int32_t unit, WindowStep step);
  // All tasks of the step that decodes the unit are done: their bytes are free.
  void Decoded(const std::shared_ptr<Window>& window, int32_t unit);
  // All tasks of a step of a staged unit are done.
  void Staged(const std::shared_ptr<Window>& window, int32_t unit);
  // True once the sizes of all ragged outputs are known.
  bool Counted(const std::shared_ptr<Window>& window, int32_t unit);
  // All batches of the window are handed out.
  void Close(const std::shared_ptr<Window>& window);

  // Forgets all windows. Their bytes stay counted until ReleaseBytes().
  Dropped Drop() noexcept;
  void ReleaseBytes() { fetched_bytes_ = 0; }

  // Whether nothing is left to prepare. Needs no lock.
  bool opened_all() const { return next_window_ >= pass_->plan.windows(); }
  // Windows and bytes in work.
  int64_t windows() const { return static_cast<int64_t>(open_.size()); }
  int64_t fetched_bytes() const { return fetched_bytes_; }

  // Tells, a line each, what the windows in work wait for.
  std::string Describe() const;

 private:
  struct Request {
    std::shared_ptr<Window> window;
    int32_t unit = 0;
  };

  bool HasRequests() const { return next_request_ < requests_.size(); }
  // Windows whose memory may be open.
  int64_t Opened() const;
  // Whether a window is prepared that can't be opened yet: a store takes its time.
  bool LooksAhead() const;
  void Admit();
  void PopRequest();
  // Bytes that count as fetched from the unit's admission on.
  static int64_t Charge(const Window& window, const WindowUnit& unit);
  void Submit(const std::shared_ptr<Window>& window, int32_t unit);
  std::string DescribeWindow(const Window& window) const;
  std::string DescribeUnit(const Window& window, size_t unit) const;

  const Pass* const pass_;
  const Delivery* const delivery_;
  Work* const work_;

  bool preparing_ = false;  // a window is, one at a time
  int64_t allowed_windows_;
  int64_t allowed_bytes_;
  std::atomic<int64_t> next_window_ = 0;  // to prepare
  int64_t next_to_open_ = 0;              // not after it
  std::map<int64_t, std::shared_ptr<Window>> open_;
  // Units whose bytes are not asked for yet, in plan order: those from next_request_ on.
  // A vector, since even an empty std::deque takes memory, which Drop() may not.
  std::vector<Request> requests_;
  size_t next_request_ = 0;
  int64_t fetched_bytes_ = 0;  // bytes that admitted units and carried cursors may hold
  bool fetches_ = false;       // not all bytes of the windows so far were at hand
  int64_t admitted_ = 0;       // units admitted and not decoded yet
  // Of each lane, if the lane's next window goes on from it.
  std::vector<std::shared_ptr<Window>> last_prepared_;
};

struct WindowSchedule::Dropped {
  std::map<int64_t, std::shared_ptr<Window>> open;
  std::vector<Request> requests;
  std::vector<std::shared_ptr<Window>> last_prepared;
};

}  // namespace fastload
