import { type Plants, plantsIn } from "./Plant.ts"

const kills = "kills.get(sandboxId) ?? []"
const ends = "yield* endAll(sandboxId)"
const made = `provision: ({ sandboxId }) =>\n        Effect.gen(function*() {\n          ${ends}`
const rest = "Effect.sync(() => void boxes.delete(sandboxId))"
const isBelow = "path.startsWith(`${other}/`)"
const replaced = "forget(files, sandboxId, (path) => isWithin(paths, path))"
const visited = "boxOf(sandboxId, (command) => spawn(sandboxId, command))"

export const plants: Plants = {
  port: "SandboxHost",
  subject: "packages/testing/test/sandbox/SandboxHost.suites.ts",
  plants: plantsIn("packages/domain/memory/sandbox/SandboxHostMemory.ts", [
    ["refuses no image", "isRefused: image !== null", "isRefused: false"],
    ["ends the processes of all sandboxes with one", kills, "Array.from(kills.values()).flatMap((own) => Array.from(own))"],
    ["says that a process which was killed ended well", "end(null, \"SIGKILL\")", "end(0, null)"],
    ["leaves running what an earlier worker started", "yield* endAll(sandboxId)\n          left", "left"],
    ["leaves it running when the same lease makes the box again", made, made.replace("{ sandboxId }", "{ fence, sandboxId }").replace(
      ends,
      `if (fence > 1) ${ends}`
    )],
    ["forgets the home when a newer lease makes the box again", made, made.replace("{ sandboxId }", "{ fence, sandboxId }").replace(
      ends,
      `${ends}\n          if (fence > 1) forget(files, sandboxId, () => true)`
    )],
    ["has one home for all", "`/memory/home/${sandboxId}`", "`/memory/home`"],
    ["finds the box of a stopped sandbox", "boxes.delete(sandboxId)\n            kills", "kills"],
    ["finds the box of a sandbox at rest", rest, "Effect.void"],
    ["starts processes in a sandbox at rest", "boxes.has(sandboxId) ? spawn(sandboxId, command) : Effect.fail(gone)",
      "spawn(sandboxId, command)"],
    ["forgets the home of a sandbox at rest", rest, "Effect.sync(() => { boxes.delete(sandboxId); forget(files, sandboxId, () => true) })"],
    ["lists no sandbox at rest", rest, "Effect.sync(() => { boxes.delete(sandboxId); left.delete(sandboxId) })"],
    ["lists what it stopped", "left.delete(sandboxId)", ""],
    ["leaves the home of what it stopped", "forget(files, sandboxId, () => true)", ""],
    ["gives visitors another home", visited, `({ ...${visited}, home: \`\${homeOf(sandboxId)}-visit\` })`],
    ["provisions what somebody visits", visited,
      `{ const box = ${visited}; boxes.set(sandboxId, box); return box }`.replace("{ const", "(() => { const").replace(
        "return box }",
        "return box })()"
      )],
    ["writes files beside the home", "(path) => !isPath(path))", "() => false)"],
    ["loses unread output", "end(0, null))", "Effect.andThen(Queue.shutdown(output), end(0, null)))"],
    ["reads what has the same beginning", isBelow, "path.startsWith(other)"],
    ["reads a file alone, not what is below a folder", isBelow, "false"],
    ["reads files in the order in which they were written", ".sort(([a], [b]) => a < b ? -1 : 1)", ""],
    ["reads less than it may", "bytes.length > maximumBytes", "bytes.length >= maximumBytes"],
    ["writes what was changed", "given.sha256 === digestOf(paths, given.files) && ", ""],
    ["leaves what came later", replaced, ""],
    ["makes the whole home anew", replaced, "forget(files, sandboxId, () => true)"],
    ["makes a box where it writes a home", replaced,
      `boxes.set(sandboxId, boxOf(sandboxId, (command) => spawn(sandboxId, command)))\n${replaced}`],
    ["does not list a home that it made", "left.add(sandboxId)\n        forget", "forget"]
  ])
}
