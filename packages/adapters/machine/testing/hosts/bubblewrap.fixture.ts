/** Boxes for tests, where this machine can make them. */
import { SandboxId, ID_ALPHABET } from "@slipway/domain/ids/SandboxId"
import type { Box } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer, Stream } from "effect"
import { spawnSync } from "node:child_process"
import { chmod } from "node:fs/promises"
import { join } from "node:path"
import * as SandboxHostBubblewrap from "../../src/bubblewrap/SandboxHostBubblewrap.ts"
import * as Egress from "../../src/egress/Egress.ts"
import { temporaryFolder, workspaceOf } from "./Machine.ts"

export const isRoot = process.getuid?.() === 0

const NOBODY = 65_534

const lookForBoxes = () => {
  if (process.platform !== "linux") return "needs Linux"
  if (spawnSync("bwrap", ["--version"]).status !== 0) return "needs bubblewrap: apt-get install bubblewrap"
  // Boxes never run as root, who may do what others may not.
  const user = isRoot ? { uid: NOBODY, gid: NOBODY } : {}
  const { error, status, stderr } = spawnSync("bwrap", ["--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"], {
    ...user,
    cwd: "/",
    encoding: "utf8"
  })
  return status === 0 ? undefined : `needs namespaces for bubblewrap: ${error?.message ?? stderr.trim()}`
}

/** Why there are no boxes on this machine; `undefined`: there are. */
export const absent: string | undefined = lookForBoxes()

/** A new folder that users of sandboxes can pass through. */
export const openFolder = Effect.tap(temporaryFolder, (folder) => Effect.promise(() => chmod(folder, 0o711)))

export const freshId = () =>
  SandboxId.make(`c_${Array.from({ length: 12 }, () => ID_ALPHABET[Math.floor(Math.random() * ID_ALPHABET.length)]).join("")}`)

export type Options = Partial<Omit<SandboxHostBubblewrap.Options, "directory" | "uidRegistry">>

/** `folder` holds what a service keeps. The numbers of users are the test's own: other tests may run beside it. */
export const hostIn = (folder: string, options: Options = {}) =>
  SandboxHostBubblewrap.layer({ directory: join(folder, "boxes"), workspaceOf, ...options })

export const layer = (options: Options = {}, allow: Egress.Options = { allow: new Set() }) =>
  Layer.provideMerge(Layer.unwrap(Effect.map(openFolder, (folder) => hostIn(folder, options))), Egress.layer(allow))

/** Runs a shell script to its end. */
export const run = Effect.fnUntraced(function*(box: Box, script: string, env: Record<string, string> = {}) {
  const boxed = yield* box.spawn({ command: "sh", args: ["-c", script], env })
  const output = yield* Stream.mkString(Stream.decodeText(boxed.stdout))
  return { ...(yield* boxed.exited), output: output.trimEnd(), stderr: yield* boxed.stderrTail }
}, Effect.scoped)
