/** Boxes of Docker for tests, where a daemon answers. */
import { SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import * as Egress from "@slipway/machine/egress/Egress"
import { openFolder } from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { workspaceOf } from "@slipway/machine/testing/hosts/Machine"
import { Effect, Layer } from "effect"
import { execFileSync, spawnSync } from "node:child_process"
import { chmodSync, mkdirSync, mkdtempSync, readlinkSync, rmSync, symlinkSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Daemon from "../src/Daemon.ts"
import * as SandboxHostDocker from "../src/SandboxHostDocker.ts"

export const socket = process.env["SLIPWAY_DOCKER_SOCKET"] ?? Daemon.SOCKET

const ping = () =>
  spawnSync("curl", ["--silent", "--max-time", "5", "--unix-socket", socket, "http://docker/_ping"], { encoding: "utf8" }).stdout

/** Why there are no such boxes on this machine; `undefined`: there are. */
export const absent: string | undefined = process.platform !== "linux"
  ? "needs Linux"
  : ping() === "OK"
  ? undefined
  : `needs a Docker daemon at ${socket}`

export const IMAGE = "slipway-test:1"

/** The programs of boxes are this machine's: the image brings the folders they appear in, and nothing to download. */
const makeImage = () => {
  const folder = mkdtempSync(join(tmpdir(), "slipway-image-"))
  // The image's own root: all its users pass through.
  chmodSync(folder, 0o755)
  // `sbin` is one of the image's own: the daemon puts its init program there.
  for (const name of ["usr", "etc", "sbin", "proc", "sys", "dev", "tmp", "run", "home"]) mkdirSync(join(folder, name))
  chmodSync(join(folder, "tmp"), 0o1777)
  for (const name of ["bin", "lib", "lib64"]) symlinkSync(readlinkSync(`/${name}`), join(folder, name))
  const archive = execFileSync("tar", ["--create", "--directory", folder, "."])
  execFileSync("curl", ["--silent", "--fail", "--unix-socket", socket, "--data-binary", "@-", "--header", "content-type: application/x-tar",
    "http://docker/images/create?fromSrc=-&repo=slipway-test&tag=1"], { input: archive })
  rmSync(folder, { recursive: true })
}

if (absent === undefined) makeImage()

export type Options = Partial<Omit<SandboxHostDocker.Options, "directory" | "image" | "socket">>

export const optionsIn = (folder: string, options: Options = {}): SandboxHostDocker.Options => ({
  workspaceOf,
  ...options,
  directory: join(folder, "boxes"),
  image: IMAGE,
  socket,
  readOnly: ["/usr", "/etc/alternatives", ...options.readOnly ?? []]
})

export const hostIn = (folder: string, options: Options = {}) =>
  Layer.effect(SandboxHost, Effect.map(SandboxHostDocker.make(optionsIn(folder, options)), ({ host }) => host))

export const layer = (options: Options = {}, allow: Egress.Options = { allow: new Set() }) =>
  Layer.provideMerge(Layer.unwrap(Effect.map(openFolder, (folder) => hostIn(folder, options))), Egress.layer(allow))
