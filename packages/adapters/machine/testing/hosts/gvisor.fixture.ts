/** Boxes of gVisor for tests, where this machine can make them. */
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect, Layer } from "effect"
import { execFile, spawnSync } from "node:child_process"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import * as Egress from "../../src/egress/Egress.ts"
import * as SandboxHostGvisor from "../../src/gvisor/SandboxHostGvisor.ts"
import { isRoot, openFolder } from "./bubblewrap.fixture.ts"
import { processes, workspaceOf } from "./Machine.ts"

const lookForBoxes = () => {
  if (process.platform !== "linux") return "needs Linux"
  if (spawnSync("runsc", ["--version"]).status !== 0) return "needs runsc: apt-get install runsc"
  if (!isRoot) return "needs root for boxes of gVisor"
  const { error, status, stderr } = spawnSync("runsc", ["--network=none", "--ignore-cgroups", "do", "true"], {
    cwd: "/",
    encoding: "utf8",
    timeout: 30_000
  })
  return status === 0 ? undefined : `needs a runsc that runs here: ${error?.message ?? stderr.trim().slice(-300)}`
}

/** Why there are no such boxes on this machine; `undefined`: there are. */
export const absent: string | undefined = lookForBoxes()

export type Options = Partial<Omit<SandboxHostGvisor.Options, "directory" | "uidRegistry">>

/** `folder` holds what a service keeps. */
export const hostIn = (folder: string, options: Options = {}) =>
  Layer.effect(
    SandboxHost,
    Effect.map(SandboxHostGvisor.make({ directory: join(folder, "boxes"), workspaceOf, ...options }), ({ host }) => host)
  )

export const layer = (options: Options = {}, allow: Egress.Options = { allow: new Set() }) =>
  Layer.provideMerge(Layer.unwrap(Effect.map(openFolder, (folder) => hostIn(folder, options))), Egress.layer(allow))

const argumentsOf = (pid: string): ReadonlyArray<string> => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1)
  } catch {
    return []
  }
}

/** Containers that run on this machine, of any service: `runsc` has the folder of its state, and their name, in its arguments. */
const containers = () =>
  readdirSync("/proc").filter((name) => /^\d+$/u.test(name)).flatMap((pid) => {
    const args = argumentsOf(pid)
    const root = args.indexOf("--root")
    const [id = ""] = args.slice(-1)
    return root >= 0 && args.includes("run") && args.includes("--bundle") ? [{ root: args[root + 1] ?? "", id }] : []
  })

/** Command lines in a container; empty if it has ended. */
const commandLines = ({ id, root }: { readonly id: string; readonly root: string }) =>
  new Promise<ReadonlyArray<string>>((resolve) => {
    const script = "for file in /proc/[0-9]*/cmdline; do tr '\\0' ' ' < $file; echo; done"
    execFile(
      "runsc",
      ["--root", root, "exec", id, "/bin/sh", "-c", script],
      { timeout: 10_000 },
      (_, output) => resolve(output.split("\n"))
    )
  })

/** How many processes have `text` in their command line: the machine sees those in containers by no name, so each is asked. */
export const running = (text: string): Effect.Effect<number> =>
  Effect.gen(function*() {
    const inside = yield* Effect.promise(() => Promise.all(containers().map(commandLines)))
    const outside = yield* processes(text)
    return outside.length + inside.flat().filter((line) => line.includes(text)).length
  })
