/**
 * Finds the API server and our credentials: those of this pod, or those of a kubeconfig file. A kubeconfig that starts programs for a
 * token, or that leaves the server unauthenticated, is refused.
 */
import { NotIsolated } from "@slipway/machine/host/NotIsolated"
import { Clock, Effect, Redacted, Schema } from "effect"
import path from "node:path"
import { textOf, yamlOf } from "./OperatorFile.ts"
import { OptionNames } from "./options/OptionNames.ts"

export interface Cluster {
  /** `https:` alone. */
  readonly server: URL
  /** The trusted certificate authorities, PEM; `null`: those of the system. */
  readonly ca: string | null
  /** The name in its certificate, if it differs from the address. */
  readonly servername: string | null
  /** A certificate of ours, PEM. */
  readonly certificate: { readonly cert: string; readonly key: Redacted.Redacted } | null
  /** The token of the `Bearer` header. `fresh`: read it again. Fails if its file cannot be read now. */
  token(fresh: boolean): Effect.Effect<Redacted.Redacted | null, TokenUnreadable>
  /** The namespace of the pod or the context; `null`: unknown. */
  readonly namespace: string | null
}

/** The file of the token cannot be read. It is written anew every hour: the next try may succeed. */
export class TokenUnreadable extends Schema.TaggedError<TokenUnreadable>()("TokenUnreadable", { file: Schema.String }) {
  override get message() {
    return `The file of the token cannot be read: ${this.file}.`
  }
}

export interface Options {
  /** A file; without it, the service account of this process's pod. */
  readonly kubeconfig?: string
  /** The folder with a pod's service account. */
  readonly serviceAccount?: string
  readonly environment?: Readonly<Record<string, string | undefined>>
}

const SERVICE_ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

/** How long a token is cached, as by Kubernetes' own clients. A token is valid for an hour and replaced before its end. */
const TOKEN_MILLIS = 60_000

const tokenIn = (file: string): Cluster["token"] => {
  let known: { readonly token: Redacted.Redacted; readonly at: number } | undefined
  return (fresh) =>
    Effect.gen(function*() {
      const now = yield* Clock.currentTimeMillis
      if (!fresh && known !== undefined && now - known.at < TOKEN_MILLIS) return known.token
      const text = yield* Effect.tryPromise({ try: () => textOf(file), catch: () => new TokenUnreadable({ file }) })
      // Other characters are invalid in a header.
      if (!/^[\x21-\x7e]+$/u.test(text.trim())) return yield* new TokenUnreadable({ file })
      known = { token: Redacted.make(text.trim()), at: now }
      return known.token
    })
}

const refusal = (missing: string, help: string) => new NotIsolated({ missing: [missing], help })

const fromPod = Effect.fnUntraced(function*(options: Options) {
  const { environment = process.env, serviceAccount = SERVICE_ACCOUNT } = options
  const nameOf = yield* OptionNames
  const help = "Run the service in a pod with a service account (automountServiceAccountToken: true), or name a kubeconfig with " +
    `${nameOf("kubeconfig")}.`
  const [host, port] = [environment["KUBERNETES_SERVICE_HOST"], environment["KUBERNETES_SERVICE_PORT"] ?? "443"]
  if (host === undefined || host === "") return yield* refusal("This process is in no pod of Kubernetes.", help)
  const file = path.join(serviceAccount, "token")
  const token = tokenIn(file)
  yield* Effect.mapError(token(true), ({ message }) => refusal(message, help))
  const ca = yield* Effect.tryPromise({
    try: () => textOf(path.join(serviceAccount, "ca.crt")),
    catch: () => refusal("The certificate of the API server's authority is not in this pod.", help)
  })
  const namespace = yield* Effect.promise(() => textOf(path.join(serviceAccount, "namespace")).then((text) => text.trim(), () => ""))
  const cluster: Cluster = {
    server: new URL(`https://${host.includes(":") ? `[${host}]` : host}:${port}`),
    ca,
    servername: null,
    certificate: null,
    token,
    namespace: namespace === "" ? null : namespace
  }
  return cluster
})

const Text = Schema.optionalKey(Schema.NullOr(Schema.String))

/** The fields of a kubeconfig that are read. A user is read whole, because an unknown field may be a credential. */
const Kubeconfig = Schema.Struct({
  "current-context": Text,
  clusters: Schema.Array(Schema.Struct({
    name: Schema.String,
    cluster: Schema.Struct({
      server: Text,
      "certificate-authority": Text,
      "certificate-authority-data": Text,
      "insecure-skip-tls-verify": Schema.optionalKey(Schema.NullOr(Schema.Boolean)),
      "tls-server-name": Text,
      "proxy-url": Text
    })
  })),
  users: Schema.Array(Schema.Struct({ name: Schema.String, user: Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown)) })),
  contexts: Schema.Array(Schema.Struct({
    name: Schema.String,
    context: Schema.Struct({ cluster: Text, user: Text, namespace: Text })
  }))
})

const decodeKubeconfig = Schema.decodeUnknownResult(Kubeconfig)

/** Supported fields of a user. */
const KNOWN = new Set([
  "token",
  "tokenFile",
  "client-certificate",
  "client-certificate-data",
  "client-key",
  "client-key-data"
])

const fromFile = Effect.fnUntraced(function*(file: string) {
  const nameOf = yield* OptionNames
  const help = `Name another file with ${nameOf("kubeconfig")}, or correct it: kubectl --kubeconfig ${file} config view`
  const refuse = (missing: string, otherHelp = help) => Effect.fail(refusal(missing, otherHelp))
  const value: unknown = yield* Effect.tryPromise({
    try: () => yamlOf(file),
    // The parser's messages quote the file.
    catch: () => refusal(`The kubeconfig ${file} cannot be read, or is no YAML.`, help)
  })
  const decoded = decodeKubeconfig(value)
  if (decoded._tag === "Failure") return yield* refuse(`${file} is no kubeconfig.`)
  const config = decoded.success
  const contextName = config["current-context"] ?? ""
  const chosen = config.contexts.find(({ name }) => name === contextName)?.context
  if (chosen === undefined) return yield* refuse(`The kubeconfig ${file} has no context ${JSON.stringify(contextName)}.`)
  const cluster = config.clusters.find(({ name }) => name === chosen.cluster)?.cluster
  if (cluster === undefined) return yield* refuse(`The kubeconfig ${file} does not have the cluster of the context ${contextName}.`)
  const user = config.users.find(({ name }) => name === chosen.user)?.user ?? {}
  if (user["exec"] !== undefined || user["auth-provider"] !== undefined) {
    return yield* refuse(
      `The kubeconfig ${file} wants a program run for its token (${user["exec"] === undefined ? "auth-provider" : "exec"}), ` +
        "which this service does not do.",
      "Give it a service account's token, in a file that is kept fresh: tokenFile; or a client certificate."
    )
  }
  const unknown = Object.keys(user).find((field) => !KNOWN.has(field))
  if (unknown !== undefined) return yield* refuse(`The user of the kubeconfig ${file} has ${unknown}, which this service does not know.`)
  if (cluster["insecure-skip-tls-verify"] === true) {
    return yield* refuse(`The kubeconfig ${file} leaves the API server unknown (insecure-skip-tls-verify).`)
  }
  if (typeof cluster["proxy-url"] === "string") {
    return yield* refuse(`The kubeconfig ${file} leads through a proxy (proxy-url), which this service does not use.`)
  }
  const { server = "" } = cluster
  if (server === null || !URL.canParse(server) || new URL(server).protocol !== "https:") {
    return yield* refuse(`The server of the kubeconfig ${file} is no https address.`)
  }
  const beside = (name: string) => path.resolve(path.dirname(file), name)
  /** The content as base64, otherwise the content of the named file. */
  const either = (what: string, data: unknown, named: unknown) =>
    Effect.tryPromise({
      try: async () =>
        typeof data === "string" && data !== ""
          ? Buffer.from(data, "base64").toString("utf8")
          : typeof named === "string" && named !== ""
          ? await textOf(beside(named))
          : null,
      catch: () => refusal(`The ${what} of the kubeconfig ${file} cannot be read.`, help)
    })
  const ca = yield* either("certificate-authority", cluster["certificate-authority-data"], cluster["certificate-authority"])
  const cert = yield* either("client-certificate", user["client-certificate-data"], user["client-certificate"])
  const key = yield* either("client-key", user["client-key-data"], user["client-key"])
  if ((cert === null) !== (key === null)) return yield* refuse(`The kubeconfig ${file} has a certificate without its key, or the reverse.`)
  const { token, tokenFile } = user
  const given = typeof token === "string" && token !== "" ? Redacted.make(token) : null
  const result: Cluster = {
    server: new URL(server),
    ca,
    servername: cluster["tls-server-name"] ?? null,
    certificate: cert === null || key === null ? null : { cert, key: Redacted.make(key) },
    // As kubectl: the file comes first.
    token: typeof tokenFile === "string" && tokenFile !== "" ? tokenIn(beside(tokenFile)) : () => Effect.succeed(given),
    namespace: chosen.namespace ?? null
  }
  return result
})

/** Fails with the missing part and advice. */
export const find = (options: Options): Effect.Effect<Cluster, NotIsolated> =>
  options.kubeconfig === undefined ? fromPod(options) : fromFile(options.kubeconfig)
