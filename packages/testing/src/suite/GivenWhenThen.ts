/** Tests of deciders as sentences: given these events, when this is commanded, then these events follow, or this refusal. */
import * as Result from "effect/Result"
import { assert } from "./Assert.ts"

/** A pure decider. */
export interface Decider<State extends object, Command, Event, Refusal extends { readonly _tag: string }> {
  readonly initial: State
  decide(state: State, command: Command): Result.Result<ReadonlyArray<Event>, Refusal>
  evolve(state: State, event: Event): State
}

/** The result of a command: its events, or the tag of the refusal. */
export type Outcome<Event, Refusal extends string> = ReadonlyArray<Event> | Refusal

/** The tested rules: they begin with something given and take commands. */
export interface Subject<Given, State, Command, Event, Refusal extends string> {
  begin(given: Given): State
  /** The result, and the state after it. */
  take(state: State, command: Command): readonly [Outcome<Event, Refusal>, State]
}

/** The second half of a sentence. */
export interface When<Command, Event, Refusal extends string> {
  /** All but the last command have to be accepted. */
  when(...commands: readonly [Command, ...ReadonlyArray<Command>]): {
    /** Fails unless the last command has exactly these events, none for an empty list, or this refusal. */
    then(expected: Outcome<Event, Refusal>): void
  }
}

/** The word `given` for a subject. */
export const specificationOf =
  <Given, State, Command, Event, Refusal extends string>({ begin, take }: Subject<Given, State, Command, Event, Refusal>) =>
  (given: Given): When<Command, Event, Refusal> => ({
    when: (...commands) => ({
      then: (expected) => {
        const last = commands.length - 1
        let state = begin(given)
        for (const [i, command] of commands.entries()) {
          const [outcome, next] = take(state, command)
          if (i === last) assert.deepStrictEqual(outcome, expected)
          else assert.isFalse(typeof outcome === "string", `${outcome} was the answer to command ${i + 1}`)
          state = next
        }
      }
    })
  })

/** The word `given` for a decider: given a state, or the events that lead to it. A state is no array. */
export const specification = <State extends object, Command, Event, Refusal extends { readonly _tag: string }>(
  { decide, evolve, initial }: Decider<State, Command, Event, Refusal>
): (given: State | ReadonlyArray<Event>) => When<Command, Event, Refusal["_tag"]> => {
  const isHistory = (given: State | ReadonlyArray<Event>): given is ReadonlyArray<Event> => Array.isArray(given)
  return specificationOf({
    begin: (given: State | ReadonlyArray<Event>) => isHistory(given) ? given.reduce(evolve, initial) : given,
    take: (state, command: Command): readonly [Outcome<Event, Refusal["_tag"]>, State] => {
      const decided = decide(state, command)
      return Result.isSuccess(decided)
        ? [decided.success, decided.success.reduce(evolve, state)]
        : [decided.failure._tag, state]
    }
  })
}
