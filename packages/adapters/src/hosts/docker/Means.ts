/** What the daemon and the rights of this process give to keep boxes in. */
import type Dockerode from "dockerode"
import { Effect } from "effect"
import { OptionNames } from "../../options/OptionNames.ts"
import { NotIsolated } from "../box/NotIsolated.ts"
import * as ServiceFolder from "../box/ServiceFolder.ts"
import * as Daemon from "./Daemon.ts"
import { profileFor } from "./SeccompProfile.ts"

export interface Means extends ServiceFolder.ServiceFolder {
  readonly docker: Dockerode
  readonly socket: string
  /** Of the daemon. */
  readonly version: string
  readonly seccompProfile: string
  readonly image: {
    readonly name: string
    /** Where its programs are. */
    readonly path: string
  }
  /** What the kernel limits, says the daemon. */
  readonly kernel: { readonly memory: boolean; readonly processes: boolean; readonly cpu: boolean }
}

export interface Options extends ServiceFolder.Options {
  /** What boxes have of programs beside ours: `sh`, `unshare`, glibc, `git`. */
  readonly image: string
  /** Where the daemon listens. Default {@link Daemon.SOCKET}. */
  readonly socket?: string
}

const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/** Gets the image when the daemon has it not. That may take minutes: it is said before and after. */
const pull = Effect.fnUntraced(function*(docker: Dockerode, image: string) {
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
        help: `Get it: docker pull ${image}, or name another one with ${nameOf("image")}.`
      })
    }
  })
  yield* Effect.logInfo("got the image of sandboxes", { image })
})

export const find = Effect.fn("Means.find")(function*(options: Options) {
  const { image, socket = Daemon.SOCKET } = options
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
  const images = yield* asked(() => docker.listImages({ filters: JSON.stringify({ reference: [image] }) }))
  if (images.length === 0) yield* pull(docker, image)
  const { Config } = yield* asked(() => docker.getImage(image).inspect())

  const means: Means = {
    ...yield* ServiceFolder.open(options),
    docker,
    socket,
    seccompProfile,
    version: info.ServerVersion,
    image: { name: image, path: Config.Env?.find((variable) => variable.startsWith("PATH="))?.slice("PATH=".length) ?? DEFAULT_PATH },
    kernel: { memory: info.MemoryLimit === true, processes: info.PidsLimit === true, cpu: info.CpuCfsQuota === true }
  }
  return means
})
