/** The daemon's features and the rights of this process that keep boxes in. */
import * as ServiceFolder from "@slipway/machine/files/ServiceFolder"
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import { profileFor } from "@slipway/machine/kernel/SeccompProfile"
import type Dockerode from "dockerode"
import { Effect } from "effect"
import * as Daemon from "./Daemon.ts"
import { OptionNames } from "./options/OptionNames.ts"

export interface Image {
  /** The operator's text, with or without a digest. */
  readonly name: string
  /** The digest of its content. */
  readonly id: string
  readonly architecture: string
  /** Where its programs are. */
  readonly path: string
}

export interface HostRequirements extends ServiceFolder.ServiceFolder {
  readonly docker: Dockerode
  readonly socket: string
  /** The daemon's version. */
  readonly version: string
  readonly seccompProfile: string
  readonly image: Image
  /** Others that repositories may ask for. */
  readonly images: ReadonlyArray<Image>
  /** How many processors the daemon has: it refuses to limit a container to more. */
  readonly processors: number
  /** The limits that the kernel enforces, as the daemon reports them. */
  readonly kernel: { readonly memory: boolean; readonly processes: boolean; readonly cpu: boolean }
}

export interface Options extends ServiceFolder.Options {
  /** The image with the programs of boxes beside ours: `sh`, `unshare`, glibc, `git`. */
  readonly image: string
  /** Others, for repositories that ask for one. */
  readonly images?: ReadonlyArray<string>
  /** Where the daemon listens. Default {@link Daemon.SOCKET}. */
  readonly socket?: string
}

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/** The image as the daemon has it now. */
export const inspect = async (docker: Dockerode, name: string): Promise<Image> => {
  const { Architecture, Config, Id } = await docker.getImage(name).inspect()
  const path = Config.Env?.find((variable) => variable.startsWith("PATH="))?.slice("PATH=".length)
  return { name, id: Id, architecture: Architecture, path: path ?? DEFAULT_PATH }
}

/** Pulls a missing image. That may take minutes, so it is logged before and after. */
const pull = Effect.fnUntraced(function*(docker: Dockerode, image: string, option: "image" | "images") {
  const nameOf = yield* OptionNames
  yield* Effect.logInfo("getting the image of sandboxes", { image })
  yield* Effect.tryPromise({
    try: async (signal) => {
      const progress = await docker.pull(image, { abortSignal: signal })
      await new Promise<void>((resolve, reject) =>
        docker.modem.followProgress(progress, (error) => error === null ? resolve() : reject(error))
      )
    },
    catch: (error) => {
      const why = error instanceof Error ? error.message.slice(0, 300) : "it does not say why"
      return new NotIsolated({
        missing: [`The image ${image} is not on this machine, and the daemon cannot get it: ${why}.`],
        help: `Get it: docker pull ${image}, or name another one with ${nameOf(option)}.`
      })
    }
  })
  yield* Effect.logInfo("got the image of sandboxes", { image })
})

export const find = Effect.fn("HostRequirements.find")(function*(options: Options) {
  const { socket = Daemon.SOCKET } = options
  const nameOf = yield* OptionNames
  const refuse = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })
  if (process.platform !== "linux") {
    return yield* refuse(
      `Boxes of Docker need the daemon and the service on one Linux machine, and this is ${process.platform}.`,
      "Run the service on Linux, or in a Linux machine."
    )
  }
  const seccompProfile = profileFor(process.arch)
  if (seccompProfile === undefined) {
    return yield* refuse(`There is no system call filter for ${process.arch}.`, "Run the service on x64 or arm64.")
  }
  const docker = yield* Daemon.connect(socket)
  const asked = <A>(run: () => Promise<A>) =>
    Effect.mapError(
      Daemon.call("provision", run),
      ({ detail }) =>
        refuse(
          detail,
          "Install and start it: apt-get install docker.io, and let this user use it: usermod -aG docker; or name its socket with " +
            `${nameOf("socket")}.`
        )
    )
  const info = yield* asked(() => docker.info())
  if (info.OSType !== "linux") return yield* refuse("The Docker daemon runs no Linux containers.", "Switch it to Linux containers.")
  if (!info.SecurityOptions?.some((option: string) => option.includes("seccomp"))) {
    return yield* refuse("The Docker daemon has no system call filters.", "Use a kernel and a daemon with seccomp.")
  }
  /** The image as the daemon has it, pulled if it is missing. */
  const had = Effect.fnUntraced(function*(name: string, option: "image" | "images") {
    const known = yield* asked(() => inspect(docker, name).catch(Daemon.orMissing))
    if (known !== null) return known
    yield* pull(docker, name, option)
    return yield* asked(() => inspect(docker, name))
  })

  const requirements: HostRequirements = {
    ...yield* ServiceFolder.open(options),
    docker,
    socket,
    seccompProfile,
    version: info.ServerVersion,
    image: yield* had(options.image, "image"),
    // One after the other: a daemon pulls the layers of an image in parallel.
    images: yield* Effect.forEach(options.images ?? [], (name) => had(name, "images")),
    processors: info.NCPU,
    kernel: { memory: info.MemoryLimit === true, processes: info.PidsLimit === true, cpu: info.CpuCfsQuota === true }
  }
  return requirements
})
