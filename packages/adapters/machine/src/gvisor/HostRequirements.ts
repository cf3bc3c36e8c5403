/** The programs, files and rights on this machine that boxes of gVisor need. */
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { chmod, mkdir } from "node:fs/promises"
import { join } from "node:path"
import { promisify } from "node:util"
import { findTools } from "../box/Launcher.ts"
import * as ServiceFolder from "../files/ServiceFolder.ts"
import { NotIsolated } from "../host/NotIsolated.ts"
import * as Cgroups from "../kernel/Cgroups.ts"
import { filterFor, type Filter } from "./SystemCallFilter.ts"

/** Programs of the machine that boxes are made with, and the package that has each. */
const packages = { runsc: "runsc", setpriv: "util-linux", taskset: "util-linux", unshare: "util-linux" }

export type Tools = Readonly<Record<keyof typeof packages, string>>

/** How gVisor comes between a program and the machine's kernel. */
type Platform = "systrap" | "ptrace"

export interface HostRequirements extends ServiceFolder.ServiceFolder {
  readonly uids: NonNullable<ServiceFolder.ServiceFolder["uids"]>
  readonly tools: Tools
  /** As `runsc` says it. */
  readonly version: string
  readonly platform: Platform
  readonly filter: Filter
  readonly groups: Cgroups.Groups | Cgroups.NoGroups
  /** Holds what containers are made of while they run: in memory, since it has what commands are given. */
  readonly bundles: string
}

export interface Options extends ServiceFolder.Options {
  /** Where the kernel's control groups are mounted. */
  readonly cgroupRoot?: string
}

/** A path of a unix socket ends at 107 bytes, and `runsc` makes one below. */
const BUNDLES = "/run/slipway/gvisor"

const run = promisify(execFile)

/** It says of itself what platforms it has, with an exit code of its own. */
const saysOf = (runsc: string, command: string) =>
  run(runsc, [command], { env: {}, timeout: 10_000 }).then(
    ({ stderr, stdout }) => stdout + stderr,
    (error: { readonly stdout?: string; readonly stderr?: string }) => `${error.stdout ?? ""}${error.stderr ?? ""}`
  )

const makeBundles = async (service: string): Promise<string> => {
  const bundles = join(BUNDLES, service)
  await mkdir(bundles, { recursive: true, mode: 0o755 })
  // A container's kernel, who is another user, passes through and sees no names.
  for (const folder of [BUNDLES, bundles]) await chmod(folder, 0o711)
  return bundles
}

export const find = Effect.fn("HostRequirements.find")(function*(options: Options) {
  const refuse = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })
  if (process.platform !== "linux") {
    return yield* refuse(`gVisor needs Linux, and this is ${process.platform}.`, "Run the service on Linux, or in a Linux machine.")
  }
  const filter = filterFor(process.arch)
  if (filter === undefined) return yield* refuse(`There is no system call filter for ${process.arch}.`, "Run the service on x64 or arm64.")
  const tools = yield* Effect.promise(() => findTools(packages))
  if ("package" in tools) {
    return yield* refuse(
      `The program ${tools.tool} is not installed.`,
      `Install it: apt-get install ${tools.package}${tools.tool === "runsc" ? " (Debian 12 and newer; else see gvisor.dev/docs)" : ""}.`
    )
  }
  const folder = yield* ServiceFolder.open(options)
  const { uids } = folder
  if (uids === null) {
    return yield* refuse(
      "Boxes of gVisor are made by root alone, who gives each sandbox users of its own.",
      "Run the service as root, or keep sandboxes in with bubblewrap."
    )
  }
  const flags = yield* Effect.promise(() => saysOf(tools.runsc, "flags"))
  if (!/^[ \t]*-oci-seccomp/mu.test(flags) || !/^[ \t]*-host-uds/mu.test(flags)) {
    return yield* refuse(`${tools.runsc} is too old, or is not gVisor's.`, "Use gVisor of 2022-12 or newer.")
  }
  const version = yield* Effect.promise(() => saysOf(tools.runsc, "--version"))
  const requirements: HostRequirements = {
    ...folder,
    uids,
    tools,
    filter,
    version: /^runsc version (\S+)/u.exec(version)?.[1] ?? "of an unknown version",
    // With KVM, gVisor may hang in machines that are virtual themselves.
    platform: /systrap/u.test(flags) ? "systrap" : "ptrace",
    ...yield* Effect.tryPromise({
      try: async () => ({
        groups: await Cgroups.open(folder.service, options.cgroupRoot),
        bundles: await makeBundles(folder.service)
      }),
      catch: (error) => refuse(`${BUNDLES} cannot be used (${error instanceof Error ? error.message : error}).`, "Make /run writable.")
    })
  }
  return requirements
})
