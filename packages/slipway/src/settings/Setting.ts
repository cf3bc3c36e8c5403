/** One setting of the service. Its documentation, parsing and messages are derived from this. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import * as Config from "effect/Config"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Struct from "effect/Struct"
import type { Type } from "./Type.ts"

/** A setting is invalid. The message is one line for the operator and never contains a secret's value. */
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
  /** The name of the environment variable. */
  readonly name: string
  readonly type: Type<A>
  /** One or two sentences for people: its effect, and what happens without it. They do not repeat type and default. */
  readonly about: string
  /** The processes that use it. */
  readonly role: "http" | "worker" | "all"
  /** The value is never shown, not even in errors. */
  readonly secret?: boolean
  /** Programs that we start with our environment need it, although it may be a secret. */
  readonly inherited?: boolean
}

export interface Setting<A> extends Omit<Described<unknown>, "type"> {
  readonly type: Type<unknown>
  /** In the written form; `null`: no default. */
  readonly default: string | null
  /** The value of this process's environment, otherwise the default. */
  readonly value: Effect.Effect<A, InvalidSetting>
}

/** The text of the environment. An empty text counts as not set. */
const given = ({ name }: { readonly name: string }) =>
  Config.option(Config.String(name)).pipe(
    Effect.map((text) => Option.getOrElse(text, () => "")),
    Effect.catchTag("ConfigError", Effect.die)
  )

/** Whether the environment sets it. */
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

/** A setting that is `null` if it is not set. */
export const optional = <A>(described: Described<A>): Setting<A | null> => ({
  ...described,
  default: null,
  value: Effect.flatMap(given(described), (text) => text === "" ? Effect.succeed(null) : decode(described, text))
})

/** Settings of one subject, by the names of their values in code. */
export type Group = Readonly<Record<string, Setting<unknown>>>

interface Values extends Struct.Lambda {
  <A>(setting: Setting<A>): Effect.Effect<A, InvalidSetting>
  readonly "~lambda.out": this["~lambda.in"] extends Setting<infer A> ? Effect.Effect<A, InvalidSetting> : never
}
const value = Struct.lambda<Values>(<A>(setting: Setting<A>) => setting.value)

/** The values of a subject. Fails with the first invalid one. */
export const values = <const G extends Group>(group: G) => Effect.all(Struct.map(group, value))
