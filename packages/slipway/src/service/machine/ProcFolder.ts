/** `/proc`, which the embedded database, boxes and process checks need. */
import { Effect, Schema } from "effect"
import { access } from "node:fs/promises"

class NoProc extends Schema.TaggedError<NoProc>()("NoProc", {}) {
  override get message() {
    return "/proc is not mounted, or cannot be read, and Slipway needs it. Mount it: mount -t proc proc /proc"
  }
}

/** Fails if `/proc` shows no processes on Linux. */
export const readable = process.platform === "linux"
  ? Effect.tryPromise({ try: () => access("/proc/self/stat"), catch: () => new NoProc() })
  : Effect.void
