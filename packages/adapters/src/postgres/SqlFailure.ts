/** What a failed statement means to a caller of a port. */
import { Effect, Schema } from "effect"
import { SqlError } from "effect/sql"
import { StoreUnavailable } from "@slipway/domain/sandbox/SandboxStore"

type Failure = SqlError.SqlError | Schema.SchemaError

const isFailure = (error: unknown): error is Failure => SqlError.isSqlError(error) || Schema.isSchemaError(error)

/**
 * Trouble that passes (connection, lock, timeout, deadlock) becomes `StoreUnavailable`; any other failure is a bug in
 * our SQL or data and dies. The port's own errors pass.
 */
export const guard = <A, E, R>(self: Effect.Effect<A, E | Failure, R>) =>
  Effect.catchIf(
    self,
    (error): error is Extract<E | Failure, Failure> => isFailure(error),
    (error) =>
      error._tag === "SqlError" && error.isRetryable
        ? Effect.fail(new StoreUnavailable({ cause: error }))
        : Effect.die(error)
  )
