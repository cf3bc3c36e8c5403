/** `/proc`: the embedded database is reached through it, and boxes and processes are looked up there. */
import { Effect, Schema } from "effect"
import { access } from "node:fs/promises"

class NoProc extends Schema.TaggedError<NoProc>()("NoProc", {}) {
  override get message() {
    return "/proc is not mounted, or cannot be read, and Slipway needs it. Mount it: mount -t proc proc /proc"
  }
}

/** Fails where Linux shows no processes. */
export const readable = process.platform === "linux"
  ? Effect.tryPromise({ try: () => access("/proc/self/stat"), catch: () => new NoProc() })
  : Effect.void
