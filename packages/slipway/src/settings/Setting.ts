/** One setting of the service: all that is said of it anywhere is derived from this. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { Config, Effect, Option, Schema, Struct } from "effect"
import type { Type } from "./Type.ts"

/** A setting cannot be used. The message is the one line an operator needs; a secret's value is never in it. */
export class InvalidSetting extends Schema.TaggedError<InvalidSetting>()("InvalidSetting", {
  setting: Schema.String,
  expected: Schema.String,
  found: Schema.optionalKey(Schema.String)
}) {
  override get message() {
    const found = this.found === undefined ? "" : `, but it is ${JSON.stringify(this.found)}`
    return `${this.setting} must be ${this.expected}${found}.`
  }
}

interface Described<A> {
  /** Of the environment variable. */
  readonly name: string
  readonly type: Type<A>
  /** A sentence or two for people: what it does, and what happens without it. Its type and its default are not repeated. */
  readonly about: string
  /** Which processes it is for. */
  readonly role: "http" | "worker" | "all"
  /** Never shown, not even when it is wrong. */
  readonly secret?: boolean
}

export interface Setting<A> extends Omit<Described<unknown>, "type"> {
  readonly type: Type<unknown>
  /** As it would be written; `null`: there is none. */
  readonly default: string | null
  /** What this process was given, else the default. */
  readonly value: Effect.Effect<A, InvalidSetting>
}

/** What the environment says; an empty text counts as not set. */
const given = ({ name }: { readonly name: string }) =>
  Config.option(Config.String(name)).pipe(
    Effect.map((text) => Option.getOrElse(text, () => "")),
    Effect.catchTag("ConfigError", Effect.die)
  )

/** Whether the environment says it. */
export const isSet = (setting: { readonly name: string }) => Effect.map(given(setting), (text) => text !== "")

const decode = Effect.fnUntraced(function*<A>({ name, secret, type }: Described<A>, text: string) {
  if (secret === true) (yield* Redaction).learn(text)
  return yield* Effect.mapError(
    Schema.decodeEffect(type.schema)(text),
    () => {
      const problem = type.problemOf?.(text) ?? null
      const expected = problem === null ? type.expected : `${type.expected}: ${problem}`
      return new InvalidSetting({ setting: name, expected, ...(secret === true ? {} : { found: text }) })
    }
  )
})

export const withDefault = <A>(described: Described<A> & { readonly default: string }): Setting<A> => ({
  ...described,
  value: Effect.flatMap(given(described), (text) => decode(described, text === "" ? described.default : text))
})

/** One that is `null` when it is not set. */
export const optional = <A>(described: Described<A>): Setting<A | null> => ({
  ...described,
  default: null,
  value: Effect.flatMap(given(described), (text) => text === "" ? Effect.succeed(null) : decode(described, text))
})

/** Settings of one subject, by what the code calls their values. */
export type Group = Readonly<Record<string, Setting<unknown>>>

interface Values extends Struct.Lambda {
  <A>(setting: Setting<A>): Effect.Effect<A, InvalidSetting>
  readonly "~lambda.out": this["~lambda.in"] extends Setting<infer A> ? Effect.Effect<A, InvalidSetting> : never
}
const value = Struct.lambda<Values>(<A>(setting: Setting<A>) => setting.value)

/** The values of a subject. Fails with the first one that cannot be used. */
export const values = <const G extends Group>(group: G) => Effect.all(Struct.map(group, value))
