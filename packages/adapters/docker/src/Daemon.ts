/** The requests of this host to the Docker daemon of this machine. */
import { HostError } from "@slipway/domain/sandbox/ports/SandboxHost"
import type Dockerode from "dockerode"
import { Duration, Effect, Schema } from "effect"

/** Where a daemon listens unless it is told otherwise. */
export const SOCKET = "/var/run/docker.sock"

/** A daemon under load takes seconds to start a container. */
const ANSWER_WITHIN = Duration.seconds(30)

const Refusal = Schema.Struct({
  statusCode: Schema.Int,
  json: Schema.optionalKey(Schema.NullOr(Schema.Struct({ message: Schema.String })))
})
const isRefusal = Schema.is(Refusal)

/** The daemon's message, at most 300 characters of it. */
const words = (error: unknown): string => {
  const text = isRefusal(error)
    ? error.json?.message ?? `status ${error.statusCode}`
    : error instanceof Error
    ? error.message
    : String(error)
  return text.slice(0, 300)
}

const status = (error: unknown): number | undefined => isRefusal(error) ? error.statusCode : undefined

/** For an object that may be missing: `null` then. */
export const orMissing = (error: unknown): null => {
  if (status(error) !== 404) throw error
  return null
}

/** Runs one call. A daemon that cannot be reached, or fails, may answer the next one. */
export const call = <A>(operation: HostError["operation"], run: () => Promise<A>): Effect.Effect<A, HostError> =>
  Effect.tryPromise({
    try: run,
    catch: (error) => {
      const code = status(error)
      return new HostError({
        operation,
        detail: code === undefined
          ? `The Docker daemon cannot be reached (${words(error)}).`
          : `The Docker daemon refuses: ${words(error)}.`,
        retryable: code === undefined || code >= 500
      })
    }
  }).pipe(Effect.timeoutOrElse({
    duration: ANSWER_WITHIN,
    orElse: () => Effect.fail(new HostError({ operation, detail: "The Docker daemon does not answer.", retryable: true }))
  }))

/** Removes a container with all processes in it, and waits until it is gone. A missing container is fine. */
export const remove = (docker: Dockerode, operation: HostError["operation"], id: string): Effect.Effect<void, HostError> =>
  call(operation, async () => {
    const container = docker.getContainer(id)
    try {
      await container.remove({ force: true, v: true }).catch(async (error: unknown) => {
        // Another call removes it already.
        if (status(error) !== 409) throw error
        await container.wait({ condition: "removed" })
      })
    } catch (error) {
      if (status(error) !== 404) throw error
    }
  })

/** The client is loaded when it is needed: it brings two megabytes with it. */
export const connect = (socketPath: string): Effect.Effect<Dockerode> =>
  Effect.promise(async () => {
    const { default: Docker } = await import("dockerode")
    return new Docker({ socketPath })
  })
