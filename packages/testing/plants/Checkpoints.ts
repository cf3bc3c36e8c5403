import { type Plants, plantsIn } from "./Plant.ts"

const isPut = "findLast((content) => content.checkpoint === checkpoint && content.fence === fence)"

export const plants: Plants = {
  port: "Checkpoints",
  subject: "packages/testing/test/sandbox/Checkpoints.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/sandbox/SandboxRows.ts", [
      ["shows what another lease put", isPut, isPut.replace(" && content.fence === fence", "")],
      ["shows what the first put stored", isPut, isPut.replace("findLast", "find")],
      ["shows the last put that ended, not the last one", isPut, isPut.replace("=> content", "=> content.bytes !== null && content")],
      ["does not tell which turn had ended", "turnId,\n", "turnId: null,\n"],
      ["tells when it was stored by another clock", "createdAt: at,\n      bytes",
        "createdAt: now,\n      bytes".replace("now", "DateTime.makeUnsafe(0)")],
      ["tells a byte more than there is", "total + chunk.length", "total + chunk.length + 1"],
      ["forgets which commits it is of", "repos,\n      content", "repos: [],\n      content"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/CheckpointsMemory.ts", [
      ["takes what a worker had read to the end when it lost the lease", "yield* leased(state, lease)\n        put", "put"],
      ["keeps what a put that was cut off had stored", "changes, bytes: null }", "changes, bytes: [] }"],
      ["refuses one of just the size that is allowed", "bytes > MAX_CHECKPOINT_BYTES", "bytes >= MAX_CHECKPOINT_BYTES"],
      ["takes one of any size", "if (bytes > MAX_CHECKPOINT_BYTES) return Effect.fail(new CheckpointTooLarge())", ""],
      ["begins a page with the last one of the page before", "checkpoint > after", "checkpoint >= after"],
      ["lists all that there are", ".slice(0, limit)", ""],
      ["gives another one where one is forgotten", "checkpoints.find((kept) => kept.checkpoint === checkpoint)",
        "checkpoints.find((kept) => kept.checkpoint >= checkpoint)"],
      ["keeps one more of a live sandbox", "checkpoint > newest - KEPT", "checkpoint >= newest - KEPT"],
      ["forgets what a sandbox is to go back to", " || checkpoint === restoring", ""],
      ["keeps all of a settled one", "return checkpoint === newest && ", "return "],
      ["keeps the last of a settled one for longer", "DateTime.isGreaterThan(statusAt", "DateTime.isGreaterThanOrEqualTo(statusAt"],
      ["keeps the last of a settled one for ever", " && DateTime.isGreaterThan(statusAt, endedBefore)", ""],
      ["forgets what a fork starts with", "if (isStart(state, id, checkpoint)) return true", ""],
      ["keeps what a lost lease put", "content.fence < fence ||", ""],
      ["keeps other puts of a recorded checkpoint", "content.checkpoint <= sandbox.checkpoint ||", ""],
      ["keeps what was put of a settled sandbox", "isSettled(sandbox.status) ||", ""],
      ["keeps what a later put replaced", "contents.findLast(", "contents.find("],
      ["forgets for all at once", "          if (count === limit) break\n          const checkpoints = row",
        "          const checkpoints = row"],
      ["says that it looked at one less", "return count\n", "return Math.max(0, count - 1)\n"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/SandboxRows.ts", [
      ["keeps what a fork started with that has its own", " && own === 0", ""],
      ["keeps what a fork started with that is over", " && !isSettled(status)\n", "\n"],
      ["keeps all where a fork started with one", "origin.checkpoint === checkpoint && ", ""]
    ])
  ]
}
