/** How a failed statement becomes an error of a port. */
import { StoreUnavailable } from "@slipway/domain/store/StoreUnavailable"
import { Cause, Context, Effect, Fiber, Schema } from "effect"
import { SqlError } from "effect/sql"

type Failure = SqlError.SqlError | Schema.SchemaError

const isFailure = (error: unknown): error is Failure => SqlError.isSqlError(error) || Schema.isSchemaError(error)

/**
 * Trouble that passes and that the driver does not know as such: out of connections, memory or disk (class 53), a server that
 * shuts down, crashed or is starting (57P01 to 57P03), a standby before it is promoted (25006).
 * PostgreSQL 18, appendix A.
 */
const PASSING = /^(?:53...|57P0[1-3]|25006)$/u

/**
 * A standby before it is promoted has no unlogged tables: 0A000, which most of the time is a bug of ours. The routine of the server is the
 * same in every language (PostgreSQL 15 to 18, plancat.c).
 */
const isOfStandby = (error: Error): boolean =>
  "code" in error && error.code === "0A000" && "routine" in error && error.routine === "get_relation_info"

/** Whether the same statement, or connecting, may succeed later. */
export const passes = (error: SqlError.SqlError): boolean => {
  const { cause } = error.reason
  return error.isRetryable || cause instanceof Error &&
      ("code" in cause && typeof cause.code === "string" && PASSING.test(cause.code) || isOfStandby(cause))
}

/** SQLSTATE of trouble with the connection (08), resources (53), an operator (57), the system (58, XX). PostgreSQL 18, appendix A. */
const OF_THE_SERVER = /^(?:08|5[378]|XX)/u

/** Whether the server said no to what was asked, or to when: its transaction is rolled back. */
export const wasRefused = ({ reason: { cause } }: SqlError.SqlError): boolean =>
  cause instanceof Error && "code" in cause && typeof cause.code === "string" && /^[0-9A-Z]{5}$/u.test(cause.code) &&
  !OF_THE_SERVER.test(cause.code)

const hasPassing = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => {
    const error = Cause.isFailReason(reason) ? reason.error : Cause.isDieReason(reason) ? reason.defect : null
    return SqlError.isSqlError(error) && passes(error)
  })

/**
 * How many milliseconds a caller waits for the store, whatever holds it up: a connection that cannot be had, a server that says nothing.
 * Connections, locks and statements have shorter times, derived from it. Tests of other rules wait longer: a busy machine is no silent
 * database.
 */
export const AnswerMillis = Context.Reference<number>("@slipway/postgres/sql/AnswerMillis", { defaultValue: () => 9_000 })

/** The error after {@link AnswerMillis}. */
export const unanswered = (millis: number) => new StoreUnavailable({ cause: new Error(`no answer within ${millis} ms`) })

/**
 * Real time: it bounds what the network does, and no rule counts on it. What was begun is interrupted in the background,
 * since a connection that is silent takes its time to be given up.
 */
const answered = <A, E, R>(self: Effect.Effect<A, E, R>) =>
  Effect.contextWith((context: Context.Context<R>) =>
    Effect.callback<A, E | StoreUnavailable>((resume) => {
      const millis = Context.get(context, AnswerMillis)
      const fiber = Effect.runForkWith(context)(self)
      const timer = setTimeout(() => {
        resume(Effect.fail(unanswered(millis)))
        fiber.interruptUnsafe()
      }, millis)
      fiber.addObserver((exit) => {
        clearTimeout(timer)
        resume(exit)
      })
      return Effect.suspend(() => {
        clearTimeout(timer)
        return Fiber.interrupt(fiber)
      })
    })
  )

/**
 * Trouble that passes (connection, lock, timeout, deadlock) becomes `StoreUnavailable`, within ten seconds; any other failure
 * is a bug in our SQL or data and dies. The port's own errors pass. A transaction that lost its connection cannot be rolled
 * back either, for which the driver dies: that is the same loss.
 */
export const guard = <A, E, R>(self: Effect.Effect<A, E | Failure, R>) =>
  answered(self).pipe(
    Effect.catchCause((cause) =>
      hasPassing(cause) ? Effect.fail(new StoreUnavailable({ cause: Cause.squash(cause) })) : Effect.failCause(cause)
    ),
    Effect.catchIf(
      (error): error is Extract<E | StoreUnavailable | Failure, Failure> => isFailure(error),
      (error) => Effect.die(error)
    )
  )
