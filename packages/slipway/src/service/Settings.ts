/** Every setting of the service: its name, what it accepts, its default. Read from the environment, shown by `--help`. */
import * as AllowList from "@slipway/adapters/egress/AllowList"
import type { Limits } from "@slipway/adapters/hosts/box/Limits"
import { Redaction } from "@slipway/adapters/redaction/Redaction"
import * as PrivateAddress from "@slipway/adapters/worker-link/PrivateAddress"
import { Usd } from "@slipway/domain/models/Budget"
import type { Author } from "@slipway/domain/publishing/Publication"
import * as ClientAddress from "@slipway/http/server/ClientAddress"
import type { Adjusted } from "@slipway/http/server/Settings"
import { Config, Duration, Effect, Option, Redacted, Result, Schema, SchemaTransformation } from "effect"
import path from "node:path"
import { nearest } from "./Suggest.ts"

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

export interface Setting<A> {
  readonly name: string
  /** As it is shown; `null`: what happens without it stands in `about`. */
  readonly default: string | null
  readonly about: string
  readonly expected: string
  /** Never shown, not even when it is wrong. */
  readonly secret?: boolean
  readonly schema: Schema.Codec<A, string>
}

const integer = (minimum: number, maximum: number) =>
  Schema.String.check(Schema.isPattern(/^\d{1,9}$/u)).pipe(
    Schema.decodeTo(
      Schema.Int.check(Schema.isBetween({ minimum, maximum })),
      SchemaTransformation.transform({ decode: Number, encode: String })
    )
  )

const flag = Schema.Literals(["true", "false"]).pipe(
  Schema.decodeTo(
    Schema.Boolean,
    SchemaTransformation.transform({ decode: (text) => text === "true", encode: (is) => is ? "true" as const : "false" as const })
  )
)

const webAddress = Schema.String.check(Schema.makeFilter((value: string) => {
  if (!URL.canParse(value)) return false
  const { hash, protocol, search, username } = new URL(value)
  return /^https?:$/u.test(protocol) && hash === "" && search === "" && username === ""
}))

/** A path is where a proxy has the service: segments of plain characters, which cookies and pages can have as they are. */
const publicAddress = webAddress.check(
  Schema.makeFilter((value: string) => !URL.canParse(value) || /^(?:\/[\w.~-]+)*\/*$/u.test(new URL(value).pathname))
)

const databaseAddress = Schema.String.check(
  Schema.makeFilter((value: string) => URL.canParse(value) && /^postgres(?:ql)?:$/u.test(new URL(value).protocol))
)

const MiB = 2 ** 20

export const Role = Schema.Literals(["all", "http", "worker"])
export type Role = typeof Role.Type

const setting = <A>(definition: Setting<A>) => definition

export const settings = {
  host: setting({
    name: "SLIPWAY_HOST",
    default: "127.0.0.1",
    about: "Address to listen on.",
    expected: "an address to listen on",
    schema: Schema.NonEmptyString
  }),
  port: setting({
    name: "SLIPWAY_PORT",
    default: "4000",
    about: "Port to listen on; 0 takes any free one.",
    expected: "a port from 0 to 65535",
    schema: integer(0, 65_535)
  }),
  publicUrl: setting({
    name: "SLIPWAY_PUBLIC_URL",
    default: null,
    about:
      "Address that clients use: it starts every link, and may have a path. Without it, http:// and the address listened on; a process with SLIPWAY_ROLE=worker needs it.",
    expected: "an http or https address without query or user",
    schema: publicAddress
  }),
  dataDir: setting({
    name: "SLIPWAY_DATA_DIR",
    default: ".slipway",
    about: "Folder for the embedded database, the clones and the working trees.",
    expected: "a folder",
    schema: Schema.NonEmptyString
  }),
  databaseUrl: setting({
    name: "DATABASE_URL",
    default: null,
    about: "Postgres 15 or newer, as postgres://user@host/database. Without it, an embedded Postgres in the data folder.",
    expected: "a postgres:// address",
    secret: true,
    schema: databaseAddress
  }),
  startup: setting({
    name: "SLIPWAY_STARTUP_SECONDS",
    default: "60",
    about: "How long a process that starts waits for the Postgres at DATABASE_URL to answer, in seconds.",
    expected: "a number of seconds from 0 to 86400",
    schema: integer(0, 86_400)
  }),
  secretsKeyFile: setting({
    name: "SLIPWAY_SECRETS_KEY_FILE",
    default: null,
    about:
      "File with the key that stored secrets, such as webhooks', are encrypted with: 32 bytes in base64. The same for every process on " +
      "one database. Without it, secrets.key in the data folder, made with the first secret.",
    expected: "a file",
    schema: Schema.NonEmptyString
  }),
  postgresAccount: setting({
    name: "SLIPWAY_PG_USER",
    default: null,
    about: "Account the embedded Postgres runs as when this process is root. Without it, slipway or postgres, made if missing.",
    expected: "the name of an account",
    schema: Schema.NonEmptyString
  }),
  role: setting({
    name: "SLIPWAY_ROLE",
    default: "all",
    about: "What this process does: http, worker, or all.",
    expected: "all, http or worker",
    schema: Role
  }),
  workerAddress: setting({
    name: "SLIPWAY_WORKER_ADDRESS",
    default: null,
    about: "Where a worker serves its files to the other processes on DATABASE_URL, as host:port of a private network. " +
      "Without it, a free port of 127.0.0.1.",
    expected: "a host and a port, such as 10.0.0.5:4001",
    schema: Schema.String.check(Schema.makeFilter((value: string) => PrivateAddress.parse(value) !== null))
  }),
  logFormat: setting({
    name: "SLIPWAY_LOG_FORMAT",
    default: "auto",
    about: "How logs are written to standard error: pretty, or json with one object a line. auto: pretty on a terminal, else json.",
    expected: "auto, pretty or json",
    schema: Schema.Literals(["auto", "pretty", "json"])
  }),
  logLevel: setting({
    name: "SLIPWAY_LOG_LEVEL",
    default: null,
    about: "The least that is logged: debug, info, warning or error. Without it, info by the service and warning by other commands.",
    expected: "debug, info, warning or error",
    schema: Schema.Literals(["debug", "info", "warning", "error"])
  }),
  rateLimitPerMinute: setting({
    name: "SLIPWAY_RATE_LIMIT_PER_MINUTE",
    default: "120",
    about: "Requests of one API key in any 60 seconds, over all processes.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  rateLimitPerUser: setting({
    name: "SLIPWAY_RATE_LIMIT_PER_USER",
    default: null,
    about: "Requests of one user in any 60 seconds with all API keys, over all processes; as many more with all sessions. " +
      "Without it, four times SLIPWAY_RATE_LIMIT_PER_MINUTE.",
    expected: "a number from 1 to 1000000",
    schema: integer(1, 1_000_000)
  }),
  rateLimitPerGrant: setting({
    name: "SLIPWAY_RATE_LIMIT_PER_GRANT",
    default: null,
    about:
      "Requests of one grant in any 60 seconds with all API keys, over all processes. Without it, eight times SLIPWAY_RATE_LIMIT_PER_MINUTE.",
    expected: "a number from 1 to 1000000",
    schema: integer(1, 1_000_000)
  }),
  keysPerUser: setting({
    name: "SLIPWAY_KEYS_PER_USER",
    default: "100",
    about: "Good API keys one user may have, in all grants together.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  streamsPerUser: setting({
    name: "SLIPWAY_STREAMS_PER_USER",
    default: "200",
    about:
      "Event streams one user may have open in this process, with all keys and sessions; one key may have 100. Never more than half of all that it holds.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  streamsPerGrant: setting({
    name: "SLIPWAY_STREAMS_PER_GRANT",
    default: "500",
    about: "Event streams of one grant that may be open in this process; never more than half of all that it holds.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  downloadsPerUser: setting({
    name: "SLIPWAY_DOWNLOADS_PER_USER",
    default: "16",
    about: "Downloads one user may run at once in this process; one key may run 8.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  downloadsPerGrant: setting({
    name: "SLIPWAY_DOWNLOADS_PER_GRANT",
    default: "32",
    about: "Downloads of one grant that may run at once in this process.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  connectionsPerAddress: setting({
    name: "SLIPWAY_CONNECTIONS_PER_ADDRESS",
    default: "512",
    about:
      "Connections one address may have, and requests from it that may be under way; never more than half of all that this process can hold.",
    expected: "a number from 1 to 100000",
    schema: integer(1, 100_000)
  }),
  keepAliveSeconds: setting({
    name: "SLIPWAY_KEEP_ALIVE_SECONDS",
    default: "65",
    about: "How long a connection may wait for its next request; longer than a proxy in front of the service keeps its own.",
    expected: "a number from 1 to 3600",
    schema: integer(1, 3600)
  }),
  trustedProxies: setting({
    name: "SLIPWAY_TRUSTED_PROXIES",
    default: null,
    about:
      "Proxies in front of the service, as addresses and networks between commas, such as 127.0.0.1,10.0.0.0/8. Requests through them count " +
      "for the address in X-Forwarded-For. Without it, for the one they come from.",
    expected: "addresses and networks between commas, such as 127.0.0.1,10.0.0.0/8",
    schema: Schema.String.check(Schema.makeFilter((value: string) => ClientAddress.parse(value) !== null))
  }),
  workerSlots: setting({
    name: "SLIPWAY_WORKER_SLOTS",
    default: "8",
    about: "Sandboxes this process works for at once.",
    expected: "a number from 1 to 1000",
    schema: integer(1, 1000)
  }),
  maxActiveSandboxes: setting({
    name: "SLIPWAY_MAX_ACTIVE_SANDBOXES",
    default: null,
    about: "Sandboxes of one grant that may be active at once. Without it, any number.",
    expected: "a number from 1 to 1000000",
    schema: integer(1, 1_000_000)
  }),
  modelsFile: setting({
    name: "SLIPWAY_MODELS",
    default: null,
    about: "File with the models that sandboxes may use; see slipway models. Without it, a built-in list.",
    expected: "a file",
    schema: Schema.NonEmptyString
  }),
  githubAppId: setting({
    name: "SLIPWAY_GITHUB_APP_ID",
    default: null,
    about:
      "Id or client id of the GitHub App that sandboxes' repositories and pull requests go through. Without it, repositories of this machine; see slipway repos.",
    expected: "the id of a GitHub App",
    schema: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9.]{1,100}$/u))
  }),
  githubPrivateKeyFile: setting({
    name: "SLIPWAY_GITHUB_PRIVATE_KEY_FILE",
    default: null,
    about: "File with the private key of the GitHub App, as GitHub hands it out.",
    expected: "a file",
    schema: Schema.NonEmptyString
  }),
  githubWebhookSecret: setting({
    name: "SLIPWAY_GITHUB_WEBHOOK_SECRET",
    default: null,
    about:
      "Secret of the App's webhook, which is sent to /hooks/source-host. Without it, changes on GitHub are seen when somebody asks for them.",
    expected: "at least 16 characters",
    secret: true,
    schema: Schema.String.check(Schema.isMinLength(16))
  }),
  githubClientId: setting({
    name: "SLIPWAY_GITHUB_CLIENT_ID",
    default: null,
    about: "Client id of the GitHub App that people sign in with; it may be another App. Without it, nobody signs in with GitHub.",
    expected: "the client id of a GitHub App",
    schema: Schema.String.check(Schema.isPattern(/^[A-Za-z0-9.]{1,100}$/u))
  }),
  githubClientSecretFile: setting({
    name: "SLIPWAY_GITHUB_CLIENT_SECRET_FILE",
    default: null,
    about: "File with a client secret of that GitHub App, and nothing else.",
    expected: "a file",
    schema: Schema.NonEmptyString
  }),
  githubApiUrl: setting({
    name: "SLIPWAY_GITHUB_API_URL",
    default: "https://api.github.com",
    about: "API of GitHub; of GitHub Enterprise Server https://HOST/api/v3.",
    expected: "an http or https address without query or user",
    schema: webAddress
  }),
  commitAuthor: setting({
    name: "SLIPWAY_COMMIT_AUTHOR",
    default: "Slipway <slipway@localhost>",
    about: "Author of commits that are published.",
    expected: "a name and an address, such as Slipway <slipway@example.com>",
    schema: Schema.String.check(Schema.isPattern(/^[^<>\n\0]*[^<>\s\0] <[^<>\s\0]+>$/u))
  }),
  commitMessage: setting({
    name: "SLIPWAY_COMMIT_MESSAGE",
    default: "{title}",
    about: "Message of commits that are published; {title}, {sandbox} and {repo} stand for the sandbox's.",
    expected: "a text",
    schema: Schema.NonEmptyString
  }),
  isolation: setting({
    name: "SLIPWAY_ISOLATION",
    default: "auto",
    about:
      "bubblewrap, or the Docker daemon of this machine, keeps agents in, or the service does not start. auto: bubblewrap where it can, else only the offline agent runs. " +
      "none lets agents with a model account run as this user, with nothing to keep them in. See slipway doctor.",
    expected: "auto, bubblewrap, docker or none",
    schema: Schema.Literals(["auto", "bubblewrap", "docker", "none"])
  }),
  dockerImage: setting({
    name: "SLIPWAY_DOCKER_IMAGE",
    default: "node:24-bookworm",
    about:
      "What sandboxes have of programs with SLIPWAY_ISOLATION=docker: an image with glibc, sh, unshare and git. It is pulled when it is not there.",
    expected: "the name of an image",
    schema: Schema.NonEmptyString
  }),
  dockerSocket: setting({
    name: "SLIPWAY_DOCKER_SOCKET",
    default: "/var/run/docker.sock",
    about: "Where the Docker daemon of this machine listens.",
    expected: "a file",
    schema: Schema.NonEmptyString
  }),
  egressAllow: setting({
    name: "SLIPWAY_EGRESS_ALLOW",
    default: null,
    about:
      "What isolated sandboxes may reach beside their model, as name:port between commas, such as registry.npmjs.org:443,pypi.org:443,files.pythonhosted.org:443. " +
      "Without it, nothing.",
    expected: "names with ports between commas, such as registry.npmjs.org:443",
    schema: Schema.String.check(Schema.makeFilter((value: string) => Result.isSuccess(AllowList.parse(value))))
  }),
  cloneDepth: setting({
    name: "SLIPWAY_CLONE_DEPTH",
    default: null,
    about: "Commits of history that clones have. Without it, all.",
    expected: "a number from 1 to 1000000",
    schema: integer(1, 1_000_000)
  }),
  cloneMinutes: setting({
    name: "SLIPWAY_CLONE_MINUTES",
    default: "9",
    about: "How long one download of a repository may take, in minutes. A boot may take ten, or one more than this.",
    expected: "a number from 1 to 1440",
    schema: integer(1, 1440)
  }),
  cloneSize: setting({
    name: "SLIPWAY_CLONE_MIB",
    default: "10240",
    about: "What one download of a repository may have, in MiB.",
    expected: "a number from 1 to 100000000",
    schema: integer(1, 100_000_000)
  }),
  cloneUnusedDays: setting({
    name: "SLIPWAY_CLONE_UNUSED_DAYS",
    default: "30",
    about: "Days after which a clone is removed that no sandbox has or asks for; 0 keeps all.",
    expected: "a number from 0 to 36500",
    schema: integer(0, 36_500)
  }),
  checkoutSize: setting({
    name: "SLIPWAY_CHECKOUT_MIB",
    default: "5120",
    about: "What the files of the commit that a sandbox starts from may have together, in MiB.",
    expected: "a number from 1 to 100000000",
    schema: integer(1, 100_000_000)
  }),
  checkoutFiles: setting({
    name: "SLIPWAY_CHECKOUT_FILES",
    default: "500000",
    about: "How many files the commit that a sandbox starts from may have.",
    expected: "a number from 1 to 10000000",
    schema: integer(1, 10_000_000)
  }),
  sandboxMemory: setting({
    name: "SLIPWAY_SANDBOX_MEMORY_MIB",
    default: "4096",
    about: "Memory of an isolated sandbox, in MiB, where the kernel limits it.",
    expected: "a number from 64 to 1048576",
    schema: integer(64, 1_048_576)
  }),
  sandboxProcesses: setting({
    name: "SLIPWAY_SANDBOX_PROCESSES",
    default: "1024",
    about: "Processes and threads of an isolated sandbox, where the kernel limits them.",
    expected: "a number from 32 to 100000",
    schema: integer(32, 100_000)
  }),
  sandboxCpus: setting({
    name: "SLIPWAY_SANDBOX_CPUS",
    default: "2",
    about: "Processors of an isolated sandbox, where the kernel limits them.",
    expected: "a number from 1 to 1024",
    schema: integer(1, 1024)
  }),
  sandboxDisk: setting({
    name: "SLIPWAY_SANDBOX_DISK_MIB",
    default: "10240",
    about:
      "Disk that an isolated sandbox may take, in MiB. Where the kernel keeps it, more is refused, and sandboxes that exist keep what they have; elsewhere it is measured, and what runs is ended when it takes more. See slipway doctor.",
    expected: "a number from 64 to 100000000",
    schema: integer(64, 100_000_000)
  }),
  sandboxBudget: setting({
    name: "SLIPWAY_SANDBOX_BUDGET_USD",
    default: null,
    about: "What the model of one sandbox may cost, in US dollars. Without it, anything.",
    expected: "US dollars such as 12.50",
    schema: Usd
  }),
  grantBudget: setting({
    name: "SLIPWAY_GRANT_BUDGET_USD",
    default: null,
    about:
      "What the models of all sandboxes of a grant may cost, in US dollars, unless slipway grants budget says otherwise. Without it, anything.",
    expected: "US dollars such as 12.50",
    schema: Usd
  }),
  webhookPrivate: setting({
    name: "SLIPWAY_WEBHOOK_PRIVATE",
    default: "false",
    about:
      "Whether webhooks may also go to http and to private addresses: true or false. Whoever may register them then reaches this network.",
    expected: "true or false",
    schema: flag
  }),
  credits: setting({
    name: "SLIPWAY_CREDITS",
    default: "off",
    about:
      "Whether models draw on the credits that claims brought to an organization, and new work without any gets 402: off or enforced. The same in every process.",
    expected: "off or enforced",
    schema: Schema.Literals(["off", "enforced"])
  }),
  creditPrice: setting({
    name: "SLIPWAY_CREDIT_MICRO_USD",
    default: "10000",
    about: "What models may cost for one credit, in millionths of a US dollar. Only with SLIPWAY_CREDITS=enforced.",
    expected: "a number from 1 to 999999999",
    schema: integer(1, 999_999_999)
  }),
  approvalMinutes: setting({
    name: "SLIPWAY_APPROVAL_MINUTES",
    default: "30",
    about: "How long a tool call waits for approval before it counts as denied.",
    expected: "a number from 1 to 1440",
    schema: integer(1, 1440)
  }),
  agentIdleMinutes: setting({
    name: "SLIPWAY_AGENT_IDLE_MINUTES",
    default: "5",
    about: "How long an agent may be without a turn before it is stopped; the next message resumes it.",
    expected: "a number from 1 to 1440",
    schema: integer(1, 1440)
  }),
  toolDetail: setting({
    name: "SLIPWAY_TOOL_DETAIL",
    default: "full",
    about:
      "What events tell of tool calls beside their title: `full`, the command, the change and the end of the output; or `none`, and who approves sees the title alone.",
    expected: "`full` or `none`",
    schema: Schema.Literals(["full", "none"])
  })
} as const

export interface Settings {
  readonly host: string
  readonly port: number
  /** Without a slash at its end. */
  readonly publicUrl: string | null
  /** Absolute. */
  readonly dataDir: string
  /** Whether somebody chose it; else it is the default, beneath the folder that the process was started in. */
  readonly dataDirIsSet: boolean
  readonly databaseUrl: Redacted.Redacted | null
  readonly startup: Duration.Duration
  /** Absolute. */
  readonly secretsKeyFile: string
  readonly postgresAccount: string | null
  readonly role: Role
  /** Absent: a free port of loopback. */
  readonly workerAddress?: PrivateAddress.Endpoint
  readonly rateLimitPerMinute: number
  readonly keysPerUser: number
  /** Of the HTTP side. */
  readonly edge: Adjusted
  readonly workerSlots: number
  /** `null`: any number. */
  readonly maxActiveSandboxes: number | null
  /** Absolute. `null`: the built-in catalogue. */
  readonly modelsFile: string | null
  /** `null`: repositories of this machine. */
  readonly github: {
    readonly appId: string
    /** Absolute. */
    readonly privateKeyFile: string
    readonly webhookSecret: Redacted.Redacted | null
    readonly apiUrl: string
  } | null
  /** `null`: nobody signs in with GitHub. */
  readonly signIn: {
    readonly clientId: string
    /** Absolute. */
    readonly clientSecretFile: string
    readonly apiUrl: string
  } | null
  readonly commit: {
    readonly author: Author
    /** See `CommitMessage`. */
    readonly message: string
  }
  readonly isolation: "auto" | "bubblewrap" | "docker" | "none"
  readonly dockerImage: string
  readonly dockerSocket: string
  readonly egressAllow: AllowList.AllowList
  readonly clone: {
    /** Commits; `null`: all. */
    readonly depth: number | null
    /** Of one download. */
    readonly minutes: number
    readonly bytes: number
    /** `null`: they are never removed. */
    readonly unusedDays: number | null
    /** Of one commit. */
    readonly checkoutBytes: number
    readonly checkoutFiles: number
  }
  /** Of isolated sandboxes. */
  readonly limits: Pick<Limits, "memoryBytes" | "processes" | "cpus" | "diskBytes">
  /** Micro-USD; `null`: no limit. */
  readonly sandboxBudget: number | null
  readonly grantBudget: number | null
  /** Micro-USD that one credit covers; `null`: credits are not enforced. */
  readonly creditPrice: number | null
  readonly webhookPrivate: boolean
  readonly approvalMinutes: number
  readonly agentIdleMinutes: number
  readonly toolDetail: "full" | "none"
}

/** The setting's value; an empty one counts as not set. `null`: not set and without a default. */
const read = Effect.fnUntraced(function*<A>({ default: fallback, expected, name, schema, secret }: Setting<A>) {
  const given = yield* Config.option(Config.String(name))
  const value = Option.getOrElse(Option.filter(given, (text) => text !== ""), () => fallback)
  if (value === null) return null
  if (secret === true) (yield* Redaction).learn(value)
  return yield* Effect.mapError(
    Schema.decodeEffect(schema)(value),
    () => new InvalidSetting({ setting: name, expected, ...(secret === true ? {} : { found: value }) })
  )
}, Effect.catchTag("ConfigError", Effect.die))

/** Whether the environment says it. */
const isSet = ({ name }: Pick<Setting<unknown>, "name">) =>
  Effect.map(Config.option(Config.String(name)), (given) => Option.getOrElse(given, () => "") !== "").pipe(
    Effect.catchTag("ConfigError", Effect.die)
  )

/** For a setting that has a default. */
const required = <A>(definition: Setting<A>) => Effect.map(read(definition), (value) => Option.getOrThrow(Option.fromNullOr(value)))

/** What belongs to a GitHub App makes no sense in part. */
const loadGitHub = Effect.gen(function*() {
  const appId = yield* read(settings.githubAppId)
  const privateKeyFile = yield* read(settings.githubPrivateKeyFile)
  const webhookSecret = yield* read(settings.githubWebhookSecret)
  const apiUrl = yield* required(settings.githubApiUrl)
  if (appId === null && privateKeyFile === null && webhookSecret === null) return null
  if (appId === null || privateKeyFile === null) {
    const lacking = appId === null ? settings.githubAppId : settings.githubPrivateKeyFile
    return yield* new InvalidSetting({ setting: lacking.name, expected: "set when another one of the GitHub App is" })
  }
  return {
    appId,
    privateKeyFile: path.resolve(privateKeyFile),
    webhookSecret: webhookSecret === null ? null : Redacted.make(webhookSecret),
    apiUrl
  }
})

const loadSignIn = Effect.gen(function*() {
  const clientId = yield* read(settings.githubClientId)
  const clientSecretFile = yield* read(settings.githubClientSecretFile)
  if (clientId === null && clientSecretFile === null) return null
  if (clientId === null || clientSecretFile === null) {
    const [lacking, given] = clientId === null
      ? [settings.githubClientId, settings.githubClientSecretFile]
      : [settings.githubClientSecretFile, settings.githubClientId]
    return yield* new InvalidSetting({ setting: lacking.name, expected: `set when ${given.name} is` })
  }
  return { clientId, clientSecretFile: path.resolve(clientSecretFile), apiUrl: yield* required(settings.githubApiUrl) }
})

const authorOf = (text: string): Author => {
  const start = text.lastIndexOf(" <")
  return { name: text.slice(0, start), email: text.slice(start + 2, -1) }
}

/** How this process logs. `level` is `null` where each command has its own. */
export const logs = Effect.gen(function*() {
  return { format: yield* required(settings.logFormat), level: yield* read(settings.logLevel) }
})

/** The settings of this process. Fails with the first one that cannot be used. */
export const load: Effect.Effect<Settings, InvalidSetting> = Effect.gen(function*() {
  const publicUrl = yield* read(settings.publicUrl)
  const dataDir = path.resolve(yield* required(settings.dataDir))
  const databaseUrl = yield* read(settings.databaseUrl)
  const modelsFile = yield* read(settings.modelsFile)
  const workerAddress = PrivateAddress.parse((yield* read(settings.workerAddress)) ?? "")
  const loaded: Settings = {
    host: yield* required(settings.host),
    port: yield* required(settings.port),
    publicUrl: publicUrl === null ? null : publicUrl.replace(/\/+$/u, ""),
    dataDir,
    dataDirIsSet: yield* isSet(settings.dataDir),
    databaseUrl: databaseUrl === null ? null : Redacted.make(databaseUrl),
    secretsKeyFile: path.resolve(dataDir, (yield* read(settings.secretsKeyFile)) ?? "secrets.key"),
    startup: Duration.seconds(yield* required(settings.startup)),
    postgresAccount: yield* read(settings.postgresAccount),
    role: yield* required(settings.role),
    ...(workerAddress === null ? {} : { workerAddress }),
    rateLimitPerMinute: yield* required(settings.rateLimitPerMinute),
    keysPerUser: yield* required(settings.keysPerUser),
    edge: {
      requestsPerUser: yield* read(settings.rateLimitPerUser),
      requestsPerGrant: yield* read(settings.rateLimitPerGrant),
      streamsPerUser: yield* required(settings.streamsPerUser),
      streamsPerGrant: yield* required(settings.streamsPerGrant),
      downloadsPerUser: yield* required(settings.downloadsPerUser),
      downloadsPerGrant: yield* required(settings.downloadsPerGrant),
      connectionsPerAddress: yield* required(settings.connectionsPerAddress),
      keepAlive: Duration.seconds(yield* required(settings.keepAliveSeconds)),
      trustedProxies: ClientAddress.parse((yield* read(settings.trustedProxies)) ?? "") ?? ClientAddress.nobody
    },
    workerSlots: yield* required(settings.workerSlots),
    maxActiveSandboxes: yield* read(settings.maxActiveSandboxes),
    modelsFile: modelsFile === null ? null : path.resolve(modelsFile),
    github: yield* loadGitHub,
    signIn: yield* loadSignIn,
    commit: { author: authorOf(yield* required(settings.commitAuthor)), message: yield* required(settings.commitMessage) },
    isolation: yield* required(settings.isolation),
    dockerImage: yield* required(settings.dockerImage),
    dockerSocket: yield* required(settings.dockerSocket),
    egressAllow: Result.getOrElse(AllowList.parse((yield* read(settings.egressAllow)) ?? ""), () => new Set()),
    clone: {
      depth: yield* read(settings.cloneDepth),
      minutes: yield* required(settings.cloneMinutes),
      bytes: (yield* required(settings.cloneSize)) * MiB,
      unusedDays: (yield* required(settings.cloneUnusedDays)) || null,
      checkoutBytes: (yield* required(settings.checkoutSize)) * MiB,
      checkoutFiles: yield* required(settings.checkoutFiles)
    },
    limits: {
      memoryBytes: (yield* required(settings.sandboxMemory)) * MiB,
      processes: yield* required(settings.sandboxProcesses),
      cpus: yield* required(settings.sandboxCpus),
      diskBytes: (yield* required(settings.sandboxDisk)) * MiB
    },
    sandboxBudget: yield* read(settings.sandboxBudget),
    grantBudget: yield* read(settings.grantBudget),
    creditPrice: (yield* required(settings.credits)) === "enforced" ? yield* required(settings.creditPrice) : null,
    webhookPrivate: yield* required(settings.webhookPrivate),
    approvalMinutes: yield* required(settings.approvalMinutes),
    agentIdleMinutes: yield* required(settings.agentIdleMinutes),
    toolDetail: yield* required(settings.toolDetail)
  }
  if (loaded.role !== "all" && databaseUrl === null) {
    return yield* new InvalidSetting({
      setting: settings.databaseUrl.name,
      expected: `set when ${settings.role.name} is ${loaded.role}: processes share one database`
    })
  }
  if (loaded.role === "worker" && publicUrl === null) {
    return yield* new InvalidSetting({
      setting: settings.publicUrl.name,
      expected: `set when ${settings.role.name} is worker: it listens nowhere itself, and its pull requests and events link to that address`
    })
  }
  return loaded
})

/** What programs that use the API take from the environment. */
const OF_PROGRAMS = ["SLIPWAY_URL", "SLIPWAY_API_KEY", "SLIPWAY_OTHER_API_KEY", "SLIPWAY_NO_SCOPE_API_KEY"]

/**
 * A line for each variable that looks like a setting and is none. Told, not refused: processes of two versions run side by side
 * with one environment while they are replaced.
 */
export const unknown = (environment: Readonly<Record<string, string | undefined>>): ReadonlyArray<string> => {
  const names = Object.values(settings).map(({ name }) => name)
  const known = new Set<string>([...names, ...OF_PROGRAMS])
  return Object.keys(environment).filter((name) => name.startsWith("SLIPWAY_") && !known.has(name)).map((name) => {
    const meant = nearest(name, names)
    return `${name} is set, but there is no such setting: it does nothing. ${
      meant === null ? "Those there are: slipway serve --help" : `Did you mean ${meant}?`
    }`
  })
}

/** The settings as a table for help texts: name, default, meaning. */
export const table: ReadonlyArray<readonly [name: string, defaultValue: string, about: string]> = Object.values(settings).map(
  ({ about, default: fallback, name }) => [name, fallback ?? "", about] as const
)
