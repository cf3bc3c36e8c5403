/** The source hosts of the service: the list of a file, or GitHub by its settings, or this machine. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { HostName } from "@slipway/domain/source/schema/RepositoryAlias"
import { webUrlOf, withoutSlash } from "@slipway/github/GitHubApi"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as SchemaIssue from "effect/SchemaIssue"
import { readFile, stat } from "node:fs/promises"
import path from "node:path"
import * as GitHub from "./GitHub.ts"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  file: Setting.optional({
    name: "SLIPWAY_SOURCE_HOSTS",
    type: Type.file,
    about: "File with a list of source hosts: GitHub, GitLab, Forgejo, Gitea and this machine, each for repositories of its own. " +
      "Without it, GitHub by the settings of its App, or this machine.",
    role: "all"
  })
}

/** Hosts of a list (our choice). */
const MAX_HOSTS = 20
const MAX_FILE_BYTES = 2 ** 20
const MAX_SECRET_BYTES = 64 * 1024
/** Characters of the shortest secret, as in SLIPWAY_GITHUB_WEBHOOK_SECRET. */
const MIN_SECRET = 16

const isRepoName = Schema.is(RepoName)

const NamePattern = Schema.String.check(
  Schema.makeFilter((text: string) => text === "*" || isRepoName(text.replace(/\/\*$/u, "/x")), {
    expected: "owner/name, owner/* or *"
  })
)
const File = Schema.NonEmptyString.check(Schema.isMaxLength(4_096))
const isWebAddress = Schema.is(Type.webAddress.schema)
const Address = Schema.String.check(Schema.makeFilter((text: string) => isWebAddress(text), { expected: Type.webAddress.expected }))
const NamePatterns = Schema.NonEmptyArray(NamePattern).check(Schema.isMaxLength(1_000))
const Named = {
  /** Default: the host of its address. */
  name: Schema.optionalKey(HostName),
  /** Which names are repositories of this host. Default: all that no earlier host has. */
  repositories: Schema.optionalKey(NamePatterns)
}
const Remote = {
  ...Named,
  webhookSecretFile: Schema.optionalKey(File)
}
/** The path of a group or project. */
const Group = Schema.String.check(
  Schema.isMaxLength(1_024),
  Schema.isPattern(/^[A-Za-z0-9_][\w.-]*(?:\/[A-Za-z0-9_][\w.-]*)*$/u, { expected: "the path of a group or project" })
)

const Tokens = {
  url: Address,
  /** The token for everything without a token of its own. */
  tokenFile: Schema.optionalKey(File),
  /** Tokens of groups and projects by their paths. The longest path wins. */
  tokens: Schema.optionalKey(Schema.Array(Schema.Struct({ path: Group, file: File })).check(Schema.isMaxLength(1_000)))
}

const LocalEntry = Schema.Struct({ kind: Schema.Literal("local"), repositories: Schema.optionalKey(NamePatterns) })
const GitHubEntry = Schema.Struct({
  kind: Schema.Literal("github"),
  ...Remote,
  appId: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9.]{1,100}$/u, { expected: "the id of a GitHub App" })),
  privateKeyFile: File,
  apiUrl: Schema.optionalKey(Address)
})
const GitLabEntry = Schema.Struct({
  kind: Schema.Literal("gitlab"),
  ...Remote,
  ...Tokens,
  /** An OAuth application of GitLab, in place of `tokenFile`: see slipway hosts sign-in. */
  oauth: Schema.optionalKey(Schema.Struct({
    clientId: Schema.String.check(Schema.isPattern(/^[\x21-\x7e]{1,200}$/u, { expected: "the id of an application" })),
    clientSecretFile: Schema.optionalKey(File)
  })),
  /** The signing token of its webhooks, beside or in place of their secret. */
  signingTokenFile: Schema.optionalKey(File),
  /** Groups whose nested projects are known by the last two segments of their paths. */
  groups: Schema.optionalKey(Schema.Array(Group).check(Schema.isMaxLength(100)))
})
const ForgejoEntry = Schema.Struct({ kind: Schema.Literals(["forgejo", "gitea"]), ...Remote, ...Tokens })
const Entry = Schema.Union([LocalEntry, GitHubEntry, GitLabEntry, ForgejoEntry])
const decode = Schema.decodeUnknownEffect(Schema.fromJsonString(Schema.Array(Entry)), { onExcessProperty: "error" })
const format = SchemaIssue.makeFormatterStandardSchemaV1()

/** The names of repositories that belong to a host, in lower case, such as `acme/*`; `null`: all that no earlier host has. */
type Patterns = ReadonlyArray<string> | null

interface Common {
  /** Unique among the hosts. */
  readonly name: HostName
  readonly repositories: Patterns
}

/** Credentials at a host of tokens. */
export interface HostTokens {
  /** Without a slash at its end. */
  readonly url: string
  readonly tokenFile: string | null
  /** `path`: a group or project. */
  readonly tokens: ReadonlyArray<{ readonly path: string; readonly file: string }>
  readonly webhookSecret: Redacted.Redacted | null
}

/** Repositories of this machine. Without patterns they are those of `slipway repos`. */
interface LocalHost extends Common {
  readonly kind: "local"
}

export interface GitHubHost extends Common, NonNullable<Effect.Success<typeof GitHub.loadApp>> {
  readonly kind: "github"
}

export interface GitLabHost extends Common, HostTokens {
  readonly kind: "gitlab"
  readonly signingToken: Redacted.Redacted | null
  readonly groups: ReadonlyArray<string>
  /** The application whose tokens serve where no file has one; `null`: none. `clientSecret`: `null` for a public application. */
  readonly oauth: { readonly clientId: string; readonly clientSecret: Redacted.Redacted | null } | null
}

/** `gitea`: the same API with other words in texts. */
export interface ForgejoHost extends Common, HostTokens {
  readonly kind: "forgejo" | "gitea"
}

export type Host = LocalHost | GitHubHost | GitLabHost | ForgejoHost

/** The address that the service asks; `null`: none. */
export const addressOf = (host: Host): string | null => host.kind === "local" ? null : host.kind === "github" ? host.apiUrl : host.url

/** The source hosts of a process. */
export interface SourceHosts {
  /** In the order in which they own names. */
  readonly list: ReadonlyArray<Host>
  /** The file of the list; `null`: a single host by other settings. */
  readonly file: string | null
}

const LOCAL: LocalHost = { kind: "local", name: "local", repositories: null }

/** The repositories of this machine alone. */
export const LOCAL_ALONE: SourceHosts = { list: [LOCAL], file: null }

const nameOfWeb = (url: string): string => new URL(url).host

const refuse = (file: string, problem: string) =>
  new Setting.InvalidSetting({ setting: settings.file.name, expected: `a file with a list of source hosts: ${problem} (${file})` })

/** The text of a file of at most `most` bytes. */
const textOf = (file: string, most: number, problem: string) =>
  Effect.tryPromise({
    try: async () => {
      if ((await stat(file)).size > most) throw new Error("too large")
      return await readFile(file, "utf8")
    },
    catch: () => problem
  })

/** `[1].url`: the entry by its position from 0, and the field. */
const placeOf = (parts: ReadonlyArray<PropertyKey>): string =>
  parts.map((part, i) => typeof part === "number" ? `[${part}]` : `${i === 0 ? "" : "."}${String(part)}`).join("")

const entriesOf = Effect.fnUntraced(function*(file: string) {
  const text = yield* textOf(file, MAX_FILE_BYTES, "it cannot be read, or has more than 1 MiB")
  return yield* Effect.mapError(decode(text), ({ issue }) => {
    const [first] = format(issue).issues
    const parts = (first?.path ?? []).map((part) => typeof part === "object" ? part.key : part)
    const said = (first?.message ?? "it is not a list").replaceAll(/\s+/gu, " ")
    return parts.length === 0 ? said : `${placeOf(parts)}: ${said}`
  })
})

/** `kind`: for people, such as `secret of a webhook`. */
const secretOf = Effect.fnUntraced(function*(file: string, kind: string) {
  const text = (yield* textOf(file, MAX_SECRET_BYTES, `the ${kind} in ${file} cannot be read`)).trim()
  if (text.length < MIN_SECRET) return yield* Effect.fail(`the ${kind} in ${file} must have at least ${MIN_SECRET} characters`)
  yield* Redaction.useSync((redactor) => redactor.learn(text))
  return Redacted.make(text)
})

/** The host of an entry. Files are beside the list, or absolute. */
const hostOf = Effect.fnUntraced(function*(folder: string, entry: typeof Entry.Type) {
  const repositories = entry.repositories?.map((pattern) => pattern.toLowerCase()) ?? null
  if (entry.kind === "local") return { ...LOCAL, repositories }
  const at = (file: string) => path.resolve(folder, file)
  const webhookSecret = entry.webhookSecretFile === undefined ? null : yield* secretOf(at(entry.webhookSecretFile), "secret of a webhook")
  if (entry.kind === "github") {
    const { apiUrl = GitHub.both.apiUrl.default ?? "", appId, privateKeyFile } = entry
    const host: GitHubHost = {
      kind: "github",
      name: entry.name ?? nameOfWeb(webUrlOf(apiUrl)),
      repositories,
      appId,
      privateKeyFile: at(privateKeyFile),
      webhookSecret,
      apiUrl
    }
    return host
  }
  const { kind, name = nameOfWeb(entry.url), tokenFile, tokens = [] } = entry
  const common = {
    name,
    repositories,
    url: withoutSlash(entry.url),
    tokenFile: tokenFile === undefined ? null : at(tokenFile),
    tokens: tokens.map(({ file, path }) => ({ path, file: at(file) })),
    webhookSecret
  }
  const application = kind === "gitlab" ? entry.oauth : undefined
  if (common.tokenFile === null && common.tokens.length === 0 && application === undefined) {
    return yield* Effect.fail(`${name} needs a tokenFile, or tokens${kind === "gitlab" ? ", or oauth" : ""}`)
  }
  if (kind !== "gitlab") return { ...common, kind } satisfies ForgejoHost
  if (common.tokenFile !== null && application !== undefined) return yield* Effect.fail(`${name} has a tokenFile and oauth: leave one out`)
  const clientSecret = application?.clientSecretFile === undefined
    ? null
    : yield* secretOf(at(application.clientSecretFile), "secret of an application")
  const oauth = application === undefined ? null : { clientId: application.clientId, clientSecret }
  const signingToken = entry.signingTokenFile === undefined ? null : yield* secretOf(at(entry.signingTokenFile), "signing token")
  return { ...common, kind, groups: entry.groups ?? [], oauth, signingToken } satisfies GitLabHost
})

/** The problem with the list as a whole; `null`: none. */
const problemOf = (list: ReadonlyArray<Host>): string | null => {
  if (list.length === 0) return "it has none"
  if (list.length > MAX_HOSTS) return `there are more than ${MAX_HOSTS}`
  const names = list.map(({ name }) => name.toLowerCase())
  const twice = names.find((name, i) => names.indexOf(name) !== i)
  if (twice !== undefined) return `two of them have the name ${twice}: give one another name`
  const all = list.findIndex(({ kind, repositories }) => repositories === null ? kind !== "local" : repositories.includes("*"))
  const behind = list[all + 1]
  return all === -1 || behind === undefined
    ? null
    : `${list[all]?.name} has all repositories, so that ${behind.name} after it has none: list it last, or name its repositories`
}

const fromFile = (file: string) =>
  Effect.gen(function*() {
    const entries = yield* entriesOf(file)
    const list = yield* Effect.forEach(entries, (entry) => hostOf(path.dirname(path.resolve(file)), entry))
    const problem = problemOf(list)
    return problem === null ? list : yield* Effect.fail(problem)
  }).pipe(Effect.mapError((problem) => refuse(file, problem)))

/** Fails if both the file and a GitHub App are set, or the file is invalid. */
export const load = Effect.gen(function*() {
  const { file } = yield* Setting.values(settings)
  const app = yield* GitHub.loadApp
  if (file !== null && app !== null) {
    return yield* new Setting.InvalidSetting({
      setting: settings.file.name,
      expected: `the only list of source hosts: write the GitHub App into it, and unset ${GitHub.app.appId.name}`
    })
  }
  const list: ReadonlyArray<Host> = file !== null
    ? yield* fromFile(file)
    : app === null
    ? [LOCAL]
    : [{ kind: "github", name: nameOfWeb(webUrlOf(app.apiUrl)), repositories: null, ...app }]
  const hosts: SourceHosts = { list, file }
  return hosts
})

/** Files with credentials of the hosts. */
export const filesOf = ({ file, list }: SourceHosts): ReadonlyArray<string> => [
  ...(file === null ? [] : [file]),
  ...list.flatMap((host) =>
    host.kind === "local"
      ? []
      : host.kind === "github"
      ? [host.privateKeyFile]
      : [...(host.tokenFile === null ? [] : [host.tokenFile]), ...host.tokens.map(({ file }) => file)]
  )
]
