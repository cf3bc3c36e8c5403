/**
 * Arbitrary values of everything the domain shows or takes, shrinking, for `it.prop` and `Arbitrary.checkEffect`. Beside
 * `Histories`, which has arbitrary lives of a sandbox. Values are decoded ones: encode them to get what is on the wire.
 */
import { type Principal, Scope } from "@slipway/domain/access/schema/Principal"
import type { EnvironmentFile } from "@slipway/domain/environment/rules/Environment"
import { FileEntry, FileStatus, FileTree, PartialWarning } from "@slipway/domain/files/schema/FileTree"
import { uuid5 } from "@slipway/domain/ids/Digest"
import { NAMESPACE, type Uuid } from "@slipway/domain/ids/Ids"
import { SandboxId } from "@slipway/domain/ids/SandboxId"
import { AgentRuntimeName } from "@slipway/domain/models/schema/AgentRuntimeName"
import { Model, ModelId } from "@slipway/domain/models/schema/ModelCatalogue"
import { ReasoningEffort } from "@slipway/domain/models/schema/ReasoningEffort"
import { ToolApprovalMode } from "@slipway/domain/models/schema/ToolApprovalMode"
import { Usage } from "@slipway/domain/models/schema/Usage"
import { PartnerEvent, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import { AgentEvent } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { Approval, ApprovalId, Decision } from "@slipway/domain/sandbox/schema/Approval"
import { CommandResult, Prompt } from "@slipway/domain/sandbox/schema/Command"
import { IdempotencyKey } from "@slipway/domain/sandbox/schema/Idempotency"
import { Creation, Metadata, Publication, Sandbox } from "@slipway/domain/sandbox/schema/Sandbox"
import { ApprovalRequest, SandboxEvent, SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { ToolKind } from "@slipway/domain/sandbox/schema/ToolCall"
import { Turn, TurnOutcome, TurnState } from "@slipway/domain/sandbox/schema/Turn"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { Checks, PullRequest, PullRequestComment, PullRequestStatus } from "@slipway/domain/source/schema/PullRequest"
import { Ref, RepoName, RepoRef } from "@slipway/domain/source/schema/RepoRef"
import { Counter, StorableText, text } from "@slipway/domain/text/Text"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import * as Arbitrary from "effect/Arbitrary"
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"

/** The schemas that the domain shows or takes, by name: every property over "each schema" goes through this list. */
export const schemas = {
  AgentEvent,
  AgentRuntimeName,
  Approval,
  ApprovalId,
  ApprovalRequest,
  Checks,
  CommandResult,
  Counter,
  CreateSandbox,
  Creation,
  Decision,
  FileEntry,
  FileStatus,
  FileTree,
  IdempotencyKey,
  Metadata,
  Model,
  ModelId,
  PartialWarning,
  PartnerEvent,
  PartnerFact,
  Prompt,
  Publication,
  PullRequest,
  PullRequestComment,
  PullRequestStatus,
  ReasoningEffort,
  Ref,
  RepoName,
  RepoRef,
  Sandbox,
  SandboxEvent,
  SandboxId,
  SandboxStatus,
  Scope,
  StorableText,
  Timestamp,
  ToolApprovalMode,
  ToolKind,
  Turn,
  TurnOutcome,
  TurnState,
  Usage
} as const

type Schemas = typeof schemas

/** Arbitrary values of one of {@link schemas}, e.g. `arbitrary("Sandbox")`. */
export const arbitrary = <K extends keyof Schemas>(name: K): Arbitrary.Arbitrary<Schemas[K]["Type"]> =>
  Arbitrary.schema<Schemas[K]>(schemas[name])

// ---------------------------------------------------------------------------------------------------------------
// Values of numbers

/** Numbers one after the other, then 0. */
type Numbers = () => number

const numbersOf = (numbers: ReadonlyArray<number>): Numbers => {
  let next = 0
  return () => numbers[next++] ?? 0
}
const once = <A>(make: (ast: SchemaAST.AST) => A): (ast: SchemaAST.AST) => A => {
  const made = new WeakMap<SchemaAST.AST, A>()
  return (ast) => {
    const known = made.get(ast) ?? make(ast)
    made.set(ast, known)
    return known
  }
}
const schemaOf = (ast: SchemaAST.AST) => Schema.make<Schema.Codec<unknown>>(ast)
const validity = once((ast): (value: unknown) => boolean => Schema.is(schemaOf(ast)))
const sampler = once((ast) => Arbitrary.schema(schemaOf(ast)))
const ATTEMPTS = 50
/** Effect's value, whose seed and size are the number, or the next ones if the checks of the schema discard these. */
const sampled = (ast: SchemaAST.AST, number: number): unknown => number === 0 ? firstSample(ast) : sample(ast, number)
const sample = (ast: SchemaAST.AST, number: number): unknown => {
  for (let i = 0; i < ATTEMPTS; i++) {
    const options = { count: 1, seed: number + i, size: Math.min(number, 12) + i, maxDiscards: 100 }
    const found = Effect.runSync(Effect.result(Arbitrary.sampleEffect(sampler(ast), options)))
    if (Result.isSuccess(found)) return found.success[0]
  }
  throw new Error("The checks of a schema discard all values.")
}
/** Most numbers of a shrunk array are 0. */
const firstSample = once((ast) => sample(ast, 0))
const sizeOf = (value: unknown): number => JSON.stringify(value)?.split(/[,:[{]/u).length ?? 0
/** The fields and items of the simplest value: members of a union that shrink to less come first. */
const simplest = once((ast): number => sizeOf(drawn(ast, numbersOf([]))))
const members = once((ast) => ast._tag === "Union" ? [...ast.types].sort((a, b) => simplest(a) - simplest(b)) : [])
const MOST_ITEMS = 5

const objectOf = (ast: SchemaAST.Objects, next: Numbers): Record<PropertyKey, unknown> => {
  const fields = ast.propertySignatures.flatMap(({ name, type }): ReadonlyArray<readonly [PropertyKey, unknown]> =>
    SchemaAST.isOptional(type) && next() % 2 === 0 ? [] : [[name, drawn(type, next)]]
  )
  const entries = ast.indexSignatures.flatMap(({ parameter, type }) =>
    Array.from({ length: next() % MOST_ITEMS }, () => [String(drawn(parameter, next)), drawn(type, next)] as const)
  )
  return Object.fromEntries([...fields, ...entries])
}
const arrayOf = (ast: SchemaAST.Arrays, next: Numbers): ReadonlyArray<unknown> => {
  const [item] = ast.rest
  const first = ast.elements.map((element) => drawn(element, next))
  return item === undefined || item._tag === "Never"
    ? first
    : [...first, ...Array.from({ length: next() % MOST_ITEMS }, () => drawn(item, next))]
}

/** The value with one part more, an optional field or an entry of a record, as small as it can be; the smallest first. */
const additions = (ast: SchemaAST.Objects, value: object): ReadonlyArray<object> =>
  [
    ...ast.propertySignatures.filter(({ name }) => !(name in value)).map(({ name, type }) => [name, type] as const),
    ...ast.indexSignatures.map(({ parameter, type }) => [String(drawn(parameter, numbersOf([]))), type] as const)
  ].map(([name, type]) => ({ ...value, [name]: drawn(type, numbersOf([])) })).sort((a, b) => sizeOf(a) - sizeOf(b))

/** Leaves out or adds one optional field, or leaves out items from the end, until the checks hold; `undefined`: they never do. */
const repaired = (ast: SchemaAST.Arrays | SchemaAST.Objects, value: object): unknown => {
  const isValid = validity(ast)
  if (isValid(value)) return value
  if (Array.isArray(value)) {
    const unique = value.filter((item, i) => value.findIndex((other) => JSON.stringify(other) === JSON.stringify(item)) === i)
    for (let length = unique.length; length >= 0; length--) if (isValid(unique.slice(0, length))) return unique.slice(0, length)
    return undefined
  }
  const optional = ast._tag === "Objects" ? ast.propertySignatures.filter(({ type }) => SchemaAST.isOptional(type)) : []
  for (const { name } of optional) {
    const rest = Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))
    if (isValid(rest)) return rest
  }
  return ast._tag === "Objects" ? additions(ast, value).find(isValid) : undefined
}

/** How the value is read back from where it is stored or sent; `undefined`: it cannot be written, or is refused there. */
const canonical = once((ast) => {
  const codec = schemaOf(ast)
  return (value: unknown): Option.Option<unknown> =>
    Option.flatMap(Schema.encodeUnknownOption(codec)(value), Schema.decodeUnknownOption(codec))
})

/** The form of its type may allow more than what is stored and sent, such as times before 1970. */
const stored = (ast: SchemaAST.AST, next: Numbers): unknown => {
  const type = SchemaAST.toType(ast)
  const number = next()
  for (let i = 0; i < ATTEMPTS; i++) {
    const value = i === 0 ? drawn(type, numbersOf([number])) : sampled(type, number + i)
    const read = canonical(ast)(value)
    if (Option.isSome(read)) return read.value
  }
  throw new Error("No value of a schema can be stored.")
}

const drawn = (ast: SchemaAST.AST, next: Numbers): unknown => {
  if (ast.encoding !== undefined) return stored(ast, next)
  switch (ast._tag) {
    case "Literal":
      return ast.literal
    case "Null":
      return null
    case "Undefined":
    case "Void":
      return undefined
    case "Boolean":
      return next() % 2 === 1
    case "Union": {
      const all = members(ast)
      const member = all[next() % all.length]
      return member === undefined ? undefined : drawn(member, next)
    }
    case "Number": {
      const number = next()
      return validity(ast)(number) ? number : sampled(ast, number)
    }
    case "Arrays":
      return repaired(ast, arrayOf(ast, next)) ?? sampled(ast, next())
    case "Objects":
      return repaired(ast, objectOf(ast, next)) ?? sampled(ast, next())
    default:
      return sampled(ast, next())
  }
}

/**
 * Makes a value of a schema, or of one of {@link schemas} by its name, of any whole numbers, 0 or more: the same value of the same
 * numbers, a simpler one of fewer and smaller numbers. For property testers that draw and shrink numbers themselves, e.g.
 * `fc.array(fc.nat()).map(valueOf("Sandbox"))`.
 */
export const valueOf: {
  <K extends keyof Schemas>(name: K): (numbers: ReadonlyArray<number>) => Schemas[K]["Type"]
  <A>(schema: Schema.Codec<A, unknown>): (numbers: ReadonlyArray<number>) => A
} = (of: keyof Schemas | Schema.Codec<unknown>) => {
  const { ast } = typeof of === "string" ? schemas[of] : of
  const decode = Schema.decodeUnknownSync(Schema.toType(schemaOf(ast)))
  return (numbers: ReadonlyArray<number>): never => decode(drawn(ast, numbersOf(numbers))) as never
}

/** UUIDv5, as turns and commands have. */
export const derivedId: Arbitrary.Arbitrary<Uuid> = Arbitrary.map(arbitrary("StorableText"), (name) => uuid5(NAMESPACE, name))

/** UUIDv7, as grants, keys and partner events have. */
export const uuid7: Arbitrary.Arbitrary<Uuid> = Arbitrary.schema(Schema.String.check(Schema.isUUID(7)))

/** `user_` and a ULID. */
const userId: Arbitrary.Arbitrary<string> = Arbitrary.schema(
  Schema.String.check(Schema.isPattern(/^user_[0-7][0-9A-HJKMNP-TV-Z]{25}$/u))
)

/** Instants a service may live to see, to the millisecond. */
export const instant: Arbitrary.Arbitrary<DateTime.Utc> = Arbitrary.map(
  Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 0, maximum: 4_102_444_799_999 }))),
  (millis) => DateTime.makeUnsafe(millis)
)

/** Paths as clients send them: sensible, protected, and ones that try to leave the repository. */
export const path: Arbitrary.Arbitrary<string> = Arbitrary.map(
  Arbitrary.array(
    Arbitrary.schema(Schema.Union([
      Schema.Literals(["src", "a.txt", "..", ".", "", ".git", ".GIT", ".env", ".env.example", ".claude", "é", "\0", "\u200b.git", "C:",
        "a\\b"]),
      text(0, 20)
    ])),
    { maxLength: 6 }
  ),
  (segments) => segments.join("/")
)

/** Any caller, with any scopes. */
export const principal: Arbitrary.Arbitrary<Principal> = Arbitrary.map(
  Arbitrary.all({
    credential: Arbitrary.map(uuid7, (keyId) => ({ _tag: "Key" as const, keyId })),
    grantId: uuid7,
    organizationId: uuid7,
    userId,
    scopes: Arbitrary.array(arbitrary("Scope"), { maxLength: 4 }),
    test: Arbitrary.schema(Schema.Boolean)
  }),
  ({ scopes, ...rest }) => ({ ...rest, scopes: new Set(scopes) })
)

const some = <A>(item: Arbitrary.Arbitrary<A>, maxLength = 4): Arbitrary.Arbitrary<ReadonlyArray<A>> => Arbitrary.array(item, { maxLength })
const oneOf = (...names: ReadonlyArray<string>): Arbitrary.Arbitrary<string> => Arbitrary.schema(Schema.Literals(names))

const optional = <T extends object>(all: Arbitrary.Arbitrary<T>, keep: Arbitrary.Arbitrary<ReadonlyArray<string>>) =>
  Arbitrary.map(
    Arbitrary.all([all, keep]),
    ([value, names]): Partial<T> => Object.fromEntries(Object.entries(value).filter(([name]) => names.includes(name))) as Partial<T>
  )

/** Files that say what sandboxes of a repository need, any of their keys left out. */
export const environmentFile: Arbitrary.Arbitrary<EnvironmentFile> = optional(
  Arbitrary.all({
    $schema: oneOf("", "https://slipway.invalid/schemas/environment.json"),
    setup: some(Arbitrary.filter(Arbitrary.schema(text(1, 60)), (command) => command.trim() !== "")),
    cache: Arbitrary.map(
      some(oneOf("node_modules", "./target/", "a/../b", "~/.npm", "~/.cache/pip", "~/.cargo/registry", "é")),
      (all) => Array.from(new Set(all))
    ),
    cacheKey: some(oneOf("package-lock.json", "./go.sum", "a/b.lock", ".npmrc", "é")),
    env: Arbitrary.map(
      some(Arbitrary.all([oneOf("NODE_ENV", "_", "__proto__", "toString", "a1"), Arbitrary.schema(text(0, 20))])),
      (entries) => Object.fromEntries(entries)
    ),
    secrets: Arbitrary.map(some(oneOf("NPM_TOKEN", "A", "A_1")), (all) => Array.from(new Set(all))),
    egress: some(oneOf("registry.npmjs.org:443", "PyPI.org:443", "a:1", "x.y:65535")),
    ports: Arbitrary.map(
      some(oneOf("3000", "5173", "1024", "65535")),
      (all) => Array.from(new Set(all), (port) => port === "5173" ? { port: Number(port), label: "App" } : Number(port))
    ),
    timeoutMinutes: Arbitrary.schema(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: 60 }))),
    onFailure: Arbitrary.schema(Schema.Literals(["fail", "continue"]))
  }),
  some(oneOf("$schema", "setup", "cache", "cacheKey", "env", "secrets", "egress", "ports", "timeoutMinutes", "onFailure"), 10)
)
