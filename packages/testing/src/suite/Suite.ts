/**
 * Rules as data: what contract suites and laws are made of. No test runner is in here, and each can run them: `runners/` has three,
 * and for any other a suite is a name, a list of named promises, and what lets go of all at the end.
 */
import * as Arbitrary from "effect/Arbitrary"
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import * as TestConsole from "effect/testing/TestConsole"
import { RuleBroken } from "./Assert.ts"

/** One sentence that must hold. */
export interface Rule {
  readonly name: string
  /** How long it may take at most, where that is more than a runner allows by default; milliseconds. */
  readonly timeout: number | null
  /** Fulfils when it holds, and rejects with what was found otherwise. The signal ends it early; it cleans up before it settles. */
  readonly run: (signal?: AbortSignal) => Promise<void>
}

/** Rules over one instance of what they test. They run one after the other, in any order and selection. */
export interface Suite {
  readonly name: string
  readonly rules: ReadonlyArray<Rule>
  /** Lets go of the instance, which the first rule made. Nothing runs afterwards. */
  readonly close: () => Promise<void>
}

/** The services of a test of a suite: its instance, and a scope that ends with it. */
type Test<R> = Effect.Effect<unknown, unknown, R | Scope.Scope>

interface Options {
  readonly timeout?: number
}

interface PropertyOptions extends Options {
  readonly arbitrary?: Arbitrary.CheckOptions
}

/** How rules are written. */
export interface Writer<R> {
  readonly effect: {
    (name: string, test: () => Test<R>, options?: Options): void
    /** One rule for each; `%s` in the name is the value. */
    readonly each: <A>(values: ReadonlyArray<A>) => (name: string, test: (value: A) => Test<R>, options?: Options) => void
    /** Holds of all that is drawn; what breaks it is shrunk, and comes with a token that draws it again. */
    readonly prop: <const A extends ReadonlyArray<Arbitrary.Arbitrary<any>>>(
      name: string,
      given: A,
      test: (values: { readonly [I in keyof A]: A[I] extends Arbitrary.Arbitrary<infer T> ? T : never }) => Test<R>,
      options?: PropertyOptions
    ) => void
  }
}

const testServices = Layer.mergeAll(TestConsole.layer, TestClock.layer())

/** Rules over `layer`, on the test clock: time stands still unless a rule adjusts it. */
export const define = <R>(name: string, layer: Layer.Layer<R, unknown>, write: (it: Writer<R>) => void): Suite =>
  collect(name, Layer.provideMerge(layer, testServices), write)

/** Rules over `layer`, on the real clock. */
export const defineLive = <R>(name: string, layer: Layer.Layer<R, unknown>, write: (it: Writer<R>) => void): Suite =>
  collect(name, layer, write)

const collect = <R>(name: string, layer: Layer.Layer<R, unknown>, write: (it: Writer<R>) => void): Suite => {
  const rules: Array<Rule> = []
  const scope = Scope.makeUnsafe()
  const instance = Effect.runSync(Effect.cached(Effect.orDie(Layer.buildWithScope(layer, scope))))
  const rule = (name: string, test: () => Test<R>, { timeout }: Options = {}) => {
    const run = Effect.flatMap(instance, (context) => Effect.provide(Effect.scoped(Effect.suspend(test)), context))
    rules.push({ name, timeout: timeout ?? null, run: async (signal) => settle(await Effect.runPromiseExit(run, { signal })) })
  }
  write({
    effect: Object.assign(rule, {
      each: <A>(values: ReadonlyArray<A>) => (name: string, test: (value: A) => Test<R>, options?: Options) => {
        for (const value of values) rule(name.replace("%s", String(value)), () => test(value), options)
      },
      prop: (
        name: string,
        given: ReadonlyArray<Arbitrary.Arbitrary<any>>,
        test: (values: any) => Test<R>,
        options: PropertyOptions = {}
      ) => rule(name, () => property(Arbitrary.all(given), test, options.arbitrary), options)
    })
  })
  return { name, rules, close: () => Effect.runPromise(Scope.close(scope, Exit.void)) }
}

const property = <A, R>(given: Arbitrary.Arbitrary<A>, test: (value: A) => Test<R>, options?: Arbitrary.CheckOptions) =>
  Effect.flatMap(
    Arbitrary.checkEffect(
      given,
      (value) =>
        Effect.suspend(() => test(value)).pipe(
          Effect.as(true),
          // A defect would end the search for the smallest value that breaks it.
          Effect.catchCauseIf((cause) => !Cause.hasInterrupts(cause), (cause) => Effect.fail(Cause.squash(cause)))
        ),
      options
    ),
    (result) => {
      const failure = Arbitrary.formatCheckFailure(result)
      return failure === undefined ? Effect.void : Effect.die(new Error(failure))
    }
  )

const settle = (exit: Exit.Exit<unknown, unknown>) => {
  if (Exit.isSuccess(exit)) return
  const found = Cause.squash(exit.cause)
  // A failure that is no error, or a port's error without a message, is shown by its fields.
  throw found instanceof RuleBroken ? found : Cause.prettyErrors(exit.cause)[0] ?? found
}
