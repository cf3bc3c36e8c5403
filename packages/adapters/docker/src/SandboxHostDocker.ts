/**
 * `SandboxHost` on Docker, for machines that have a daemon: each process of a sandbox, with all it starts, is a container of
 * its own, under the same rules as a box of bubblewrap. See `SECURITY.md` for what that stops and what not.
 *
 *     <directory>/<sandbox id>/…    see `box/SandboxFolder`
 */
import type { BoxProcess, HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type * as BoxKind from "@slipway/machine/box/BoxKind"
import * as IsolatedHost from "@slipway/machine/box/IsolatedHost"
import * as ImageName from "@slipway/machine/host/ImageName"
import { Deferred, Effect, Exit } from "effect"
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import type { Duplex } from "node:stream"
import { fileURLToPath } from "node:url"
import * as Attachment from "./Attachment.ts"
import * as Container from "./Container.ts"
import { call, remove } from "./Daemon.ts"
import * as HostRequirements from "./HostRequirements.ts"
import * as ImageReference from "./ImageReference.ts"

export interface Options extends HostRequirements.Options, BoxKind.Options {}

const watchdog = fileURLToPath(new URL(import.meta.url.endsWith(".ts") ? "./Watchdog.main.ts" : "./Watchdog.main.js", import.meta.url))

/** The host without its probe, which looks at it. */
export const make = (options: Options) => Effect.flatMap(HostRequirements.find(options), (requirements) => makeWith(requirements, options))

/** The same with requirements that were found before. */
export const makeWith = Effect.fnUntraced(function*(requirements: HostRequirements.HostRequirements, options: BoxKind.Options) {
  const { docker, image, images, processors, seccompProfile, service } = requirements
  const worker = randomUUID()
  const ourselves = { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 }

  // In a session of its own: signals that end this process must not end it too.
  yield* Effect.acquireRelease(
    Effect.sync(() =>
      spawn(process.execPath, ["--max-old-space-size=32", watchdog, requirements.socket, `${Container.labels.worker}=${worker}`], {
        detached: true,
        stdio: ["pipe", "ignore", "ignore"],
        env: {}
      })
    ),
    (dog) =>
      Effect.sync(() => {
        dog.kill("SIGKILL")
      })
  )

  const containersOf = (operation: HostError["operation"], ...labels: ReadonlyArray<string>) =>
    call(
      operation,
      () => docker.listContainers({ all: true, filters: JSON.stringify({ label: [`${Container.labels.instance}=${service}`, ...labels] }) })
    )

  /** Attached before the start, so that no output is lost. */
  const started = Effect.fnUntraced(function*(id: string) {
    const container = docker.getContainer(id)
    const connection: Duplex = yield* call("spawn", async () => {
      const stream = await container.attach({ stream: true, hijack: true, stdin: true, stdout: true, stderr: true })
      return stream as Duplex
    })
    const attached = Attachment.make(connection)
    yield* call("spawn", () => container.start()).pipe(Effect.tapError(() => Effect.sync(() => connection.destroy())))
    const exit = Deferred.makeUnsafe<{ readonly code: number | null; readonly signal: string | null }>()
    const end = (code: number | null) => Deferred.doneUnsafe(exit, Exit.succeed({ code, signal: null }))
    // A daemon that went away takes its containers with it, or removes them when it is back.
    container.wait().then(({ StatusCode }: { readonly StatusCode: number }) => end(StatusCode), () => end(null))
    const { State } = yield* call("spawn", () => container.inspect())
    const boxed: BoxProcess = { ...attached, pid: State.Pid, exited: Deferred.await(exit) }
    return { boxed, connection }
  })

  const start: BoxKind.Kind["start"] = Effect.fnUntraced(function*(launch) {
    const { sandboxId } = launch
    const { id } = yield* call("spawn", () =>
      docker.createContainer(Container.options({
        ...launch,
        limits: { ...launch.limits, cpus: Math.min(launch.limits.cpus, processors) },
        image: launch.image ?? image.name,
        labels: { [Container.labels.instance]: service, [Container.labels.sandbox]: sandboxId, [Container.labels.worker]: worker },
        runsAs: launch.user ?? ourselves,
        seccompProfile
      })))
    const { boxed, connection } = yield* started(id).pipe(Effect.onError(() => Effect.ignoreCause(remove(docker, "spawn", id))))
    const end = remove(docker, "stop", id).pipe(
      Effect.andThen(boxed.exited),
      Effect.catch((error) => Effect.logError("a container could not be removed", { sandboxId, container: id, reason: error.message })),
      Effect.ensuring(Effect.sync(() => connection.destroy()))
    )
    return { process: boxed, end: Effect.asVoid(end) }
  })

  const kind: BoxKind.Kind = {
    isolation: "docker",
    choose: Effect.fnUntraced(function*(asked) {
      const offered = asked === null ? undefined : ImageReference.find(asked, [image, ...images])
      const chosen = offered ?? image
      // It may have been renewed under its name.
      const now = yield* Effect.promise(() => HostRequirements.inspect(docker, chosen.name).catch(() => chosen))
      return { id: ImageName.ofContainer(now), image: chosen.name, isRefused: asked !== null && offered === undefined }
    }),
    path: (name) => [image, ...images].find((one) => one.name === name)?.path ?? image.path,
    // A container has what was mounted when it was made.
    showsMounts: false,
    insideUser: (user) => user ?? ourselves,
    prepare: () => Effect.void,
    start,
    end: Effect.fnUntraced(function*(operation, sandboxId) {
      const found = yield* containersOf(operation, `${Container.labels.sandbox}=${sandboxId}`)
      yield* Effect.forEach(found, ({ Id }) => remove(docker, operation, Id), { concurrency: "unbounded", discard: true })
    }),
    discard: () => Effect.void,
    left: Effect.map(containersOf("list"), (found) => found.map(({ Labels }) => Labels[Container.labels.sandbox] ?? ""))
  }
  return yield* IsolatedHost.makeProbed(requirements, kind, options)
})
