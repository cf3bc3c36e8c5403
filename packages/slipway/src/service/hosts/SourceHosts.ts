/** The hosts of repositories and pull requests: those of the operator's list, or GitHub or this machine alone. */
import { HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { CommitAuthor, CommitMessage } from "@slipway/domain/publishing/rules/Publication"
import { PublicAddress } from "@slipway/domain/publishing/rules/PullRequestText"
import { PullRequestFeedback } from "@slipway/domain/source/ports/PullRequestFeedback"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { RepositoryNews } from "@slipway/domain/source/ports/RepositoryNews"
import { SourceHost, type SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { type RoutedHost, shortName } from "@slipway/domain/source/routing/HostRoutes"
import * as RoutedHosts from "@slipway/domain/source/routing/RoutedHosts"
import type { RepoName } from "@slipway/domain/source/schema/RepoRef"
import type * as ForgejoApi from "@slipway/forgejo/ForgejoApi"
import * as PullRequestFeedbackForgejo from "@slipway/forgejo/PullRequestFeedbackForgejo"
import * as RepositoryNewsForgejo from "@slipway/forgejo/RepositoryNewsForgejo"
import * as SourceHostEventsForgejo from "@slipway/forgejo/SourceHostEventsForgejo"
import * as SourceHostForgejo from "@slipway/forgejo/SourceHostForgejo"
import * as PullRequestFeedbackGitHub from "@slipway/github/PullRequestFeedbackGitHub"
import * as RepositoryNewsGitHub from "@slipway/github/RepositoryNewsGitHub"
import * as SourceHostEventsGitHub from "@slipway/github/SourceHostEventsGitHub"
import * as SourceHostGitHub from "@slipway/github/SourceHostGitHub"
import * as PullRequestFeedbackGitLab from "@slipway/gitlab/PullRequestFeedbackGitLab"
import * as RepositoryNewsGitLab from "@slipway/gitlab/RepositoryNewsGitLab"
import * as SourceHostEventsGitLab from "@slipway/gitlab/SourceHostEventsGitLab"
import * as SourceHostGitLab from "@slipway/gitlab/SourceHostGitLab"
import { LocalPullRequests } from "@slipway/local-source/LocalPullRequests"
import { LocalRepositories } from "@slipway/local-source/LocalRepositories"
import * as PullRequestFeedbackLocal from "@slipway/local-source/PullRequestFeedbackLocal"
import * as SourceHostLocal from "@slipway/local-source/SourceHostLocal"
import { Context, Effect, Layer, Option, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { readFile } from "node:fs/promises"
import { app as gitHubSettings } from "../../settings/GitHub.ts"
import { InvalidSetting } from "../../settings/Setting.ts"
import type { Settings } from "../../settings/Settings.ts"
import * as Hosts from "../../settings/SourceHosts.ts"
import { tokenFor } from "./HostTokens.ts"

type Chosen = Pick<Settings, "sourceHosts">

/** The name of the setting that an operator changes for a credential of a host. */
const settingOf = (isListed: boolean): string => isListed ? Hosts.settings.file.name : gitHubSettings.privateKeyFile.name

/** The private key of the App. */
export const privateKey = (file: string, isListed: boolean) =>
  Effect.tryPromise({
    try: async () => Redacted.make(await readFile(file, "utf8")),
    catch: () =>
      new InvalidSetting({
        setting: settingOf(isListed),
        expected: isListed ? "a list whose private keys this process can read" : "a file that this process can read",
        found: file
      })
  }).pipe(Effect.tap((key) => Redaction.useSync((redactor) => redactor.learn(Redacted.value(key)))))

const appOf = (host: Hosts.GitHubHost, isListed: boolean) =>
  Effect.map(privateKey(host.privateKeyFile, isListed), (privateKey) => ({ appId: host.appId, apiUrl: host.apiUrl, privateKey }))

const gitHub = (host: Hosts.GitHubHost, isListed: boolean) =>
  Layer.unwrap(Effect.map(appOf(host, isListed), (app) => Layer.merge(SourceHostGitHub.layer(app), PullRequestFeedbackGitHub.layer(app))))

const gitHubNews = (host: Hosts.GitHubHost, isListed: boolean) =>
  Layer.unwrap(Effect.map(appOf(host, isListed), RepositoryNewsGitHub.layer))

const gitHubEvents = ({ webhookSecret }: Hosts.GitHubHost) =>
  webhookSecret === null ? Layer.empty : SourceHostEventsGitHub.layer({ secret: webhookSecret })

/** The repositories of this machine, whatever other hosts there are. */
export const local = (publicUrl: string) =>
  Layer.merge(LocalPullRequests.layerPages, PullRequestFeedbackLocal.layer).pipe(
    Layer.provideMerge(SourceHostLocal.layer({ publicUrl }))
  )

/** Whether the patterns of a host have the name, in lower case. */
const isOwned = (patterns: ReadonlyArray<string>, name: string): boolean =>
  patterns.includes("*") || patterns.includes(name) || patterns.includes(`${name.split("/")[0]}/*`)

/** Which names belong to the host. The local host without patterns has the registered ones. */
const ownsOf = Effect.fnUntraced(function*({ kind, repositories }: Hosts.Host) {
  const lower = (repos: ReadonlyArray<RepoName>) => repos.map((repo) => repo.toLowerCase())
  if (kind !== "local" || repositories !== null) {
    const owns: RoutedHost["owns"] = (repos) =>
      Effect.succeed(new Set(lower(repos).filter((name) => repositories === null || isOwned(repositories, name))))
    return owns
  }
  const registered = yield* LocalRepositories
  const owns: RoutedHost["owns"] = (repos) =>
    Effect.map(registered.missing(repos), (missing) => new Set(lower(repos)).difference(new Set(lower(missing))))
  return owns
})

/** Whether a path of the host is found by its last two segments. */
const nameOf = (host: Hosts.Host): RoutedHost["nameOf"] => (path) => {
  const isPlain = path.split("/").length === 2
  const groups = host.kind === "gitlab" ? host.groups : []
  const isBelow = groups.some((group) => path.toLowerCase().startsWith(`${group.toLowerCase()}/`))
  return isPlain || isBelow ? shortName(path) : null
}

/** `make`: a layer of the adapter with these options. */
const withTokens = <A, E, R>(
  host: Hosts.GitLabHost | Hosts.ForgejoHost,
  make: (options: ForgejoApi.Options) => Layer.Layer<A, E, R>
) => Layer.unwrap(HostConnections.useSync((connections) => make({ url: host.url, token: tokenFor(host, connections) })))

const gitLab = (host: Hosts.GitLabHost) => {
  const { groups, signingToken, webhookSecret: secret } = host
  const isHooked = secret !== null || signingToken !== null
  const proof = signingToken === null ? {} : { signingToken }
  return {
    ports: withTokens(
      host,
      (options) => Layer.merge(SourceHostGitLab.layer({ ...options, groups }), PullRequestFeedbackGitLab.layer({ ...options, groups }))
    ),
    news: withTokens(host, (options) => RepositoryNewsGitLab.layer({ ...options, groups })),
    events: isHooked
      ? withTokens(host, (options) => SourceHostEventsGitLab.layer({ secret, ...proof, host: { ...options, groups } }))
      : Layer.empty
  }
}

const forgejo = (host: Hosts.ForgejoHost) => {
  const { webhookSecret: secret } = host
  return {
    ports: withTokens(host, (options) => Layer.merge(SourceHostForgejo.layer(options), PullRequestFeedbackForgejo.layer(options))),
    news: withTokens(host, RepositoryNewsForgejo.layer),
    events: secret === null ? Layer.empty : withTokens(host, (options) => SourceHostEventsForgejo.layer({ ...options, secret }))
  }
}

type Needs = LocalRepositories | SqlClient.SqlClient | HostConnections
type Failure = InvalidSetting | SourceHostError

/** The layers of one host. `news` and `events` are empty where it has none. */
interface HostLayers {
  readonly ports: Layer.Layer<SourceHost | PullRequestFeedback, Failure, Needs>
  readonly news: Layer.Layer<never, Failure, Needs> | Layer.Layer<RepositoryNews, Failure, Needs>
  readonly events: Layer.Layer<never, Failure, Needs> | Layer.Layer<SourceHostEvents, Failure, Needs>
}

const layersOf = (host: Hosts.Host, publicUrl: string): HostLayers => {
  switch (host.kind) {
    case "local":
      return { ports: local(publicUrl), news: Layer.empty, events: Layer.empty }
    case "github":
      return { ports: gitHub(host, true), news: gitHubNews(host, true), events: gitHubEvents(host) }
    case "gitlab":
      return gitLab(host)
    case "forgejo":
    case "gitea":
      return forgejo(host)
  }
}

/** A host of the list alone, for its own paths. */
export const portsOf = (host: Hosts.Host, publicUrl: string) => layersOf(host, publicUrl).ports

const routed = Effect.fnUntraced(function*(host: Hosts.Host, publicUrl: string) {
  const { events, news, ports } = layersOf(host, publicUrl)
  const context = yield* Layer.build(Layer.mergeAll(ports, news, events))
  const built: RoutedHost = {
    name: host.name,
    owns: yield* ownsOf(host),
    nameOf: nameOf(host),
    source: Context.get(context, SourceHost),
    feedback: Context.get(context, PullRequestFeedback),
    pulls: host.kind === "local" ? Context.get(context, PullRequests) : null,
    news: Option.getOrNull(Context.getOption(context, RepositoryNews)),
    events: Option.getOrNull(Context.getOption(context, SourceHostEvents))
  }
  return built
})

/**
 * The source host of this process, the feedback on its pull requests, and `PullRequests` if a host has no pages for them. A list of
 * hosts also brings their events and the polls for their news.
 */
export const layer = ({ sourceHosts: { file, list } }: Chosen, publicUrl: string) => {
  const [only] = list
  if (file !== null) return RoutedHosts.layer(Effect.forEach(list, (host) => routed(host, publicUrl)))
  return only?.kind === "github" ? gitHub(only, false) : local(publicUrl)
}

/** GitHub by its own settings; `null`: a list of hosts, or this machine. */
const alone = ({ sourceHosts: { file, list } }: Chosen): Hosts.GitHubHost | null => {
  const [only] = list
  return file === null && only?.kind === "github" ? only : null
}

/** The events that GitHub sends, if webhooks are configured. */
export const events = (settings: Chosen) => {
  const host = alone(settings)
  return host === null ? Layer.empty : gitHubEvents(host)
}

/** Asks GitHub for news of repositories. The local host tells of its own by itself. */
export const polling = (settings: Chosen) => {
  const host = alone(settings)
  return host === null ? Layer.empty : gitHubNews(host, false)
}

/** Whether repositories of this machine are among them. */
export const hasLocal = ({ sourceHosts: { list } }: Chosen): boolean => list.some(({ kind }) => kind === "local")

/** The author and the message of commits, and the address in pull requests. */
export const commits = ({ commit, publicUrl }: Pick<Settings, "commit" | "publicUrl">) =>
  Layer.mergeAll(
    Layer.succeed(CommitAuthor, commit.author),
    Layer.succeed(CommitMessage, commit.message),
    Layer.succeed(PublicAddress, publicUrl)
  )
