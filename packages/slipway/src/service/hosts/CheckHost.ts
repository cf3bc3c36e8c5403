/** Whether a source host answers, and accepts the credentials of the service. */
import type { HostConnections } from "@slipway/domain/environment/ports/HostConnections"
import * as ForgejoApi from "@slipway/forgejo/ForgejoApi"
import * as GitHubApi from "@slipway/github/GitHubApi"
import * as GitLabApi from "@slipway/gitlab/GitLabApi"
import { Effect } from "effect"
import { app as gitHubSettings, both } from "../../settings/GitHub.ts"
import * as Hosts from "../../settings/SourceHosts.ts"
import { tokenFor } from "./HostTokens.ts"
import { privateKey } from "./SourceHosts.ts"

/** `note`: it works, with a warning. `missing`: it does not. */
interface Checked {
  readonly state: "ok" | "note" | "missing"
  /** One or two sentences with the remedy. */
  readonly detail: string
}

/** Where the operator looks for a wrong value. */
const placesOf = (isListed: boolean) =>
  isListed
    ? { app: Hosts.settings.file.name, key: Hosts.settings.file.name, url: Hosts.settings.file.name }
    : { app: gitHubSettings.appId.name, key: gitHubSettings.privateKeyFile.name, url: both.apiUrl.name }

const gitHub = (host: Hosts.GitHubHost, isListed: boolean): Effect.Effect<Checked> => {
  const { app, key, url } = placesOf(isListed)
  const { apiUrl, appId } = host
  return Effect.gen(function*() {
    const api = yield* GitHubApi.make({ appId, apiUrl, privateKey: yield* privateKey(host.privateKeyFile, isListed) })
    return yield* api.app
  }).pipe(Effect.match({
    onFailure: (error): Checked => ({
      state: "missing",
      detail: error._tag === "InvalidSetting"
        ? error.message
        : error._tag === "SourceHostError"
        ? `${error.detail} Check ${key}${key === url ? "" : ` and ${url}`}.`
        : error.status === 401
        ? `${error.detail} Check ${app}${app === key ? "" : ` and ${key}`}.`
        : `${error.detail} Check ${url}, and whether this machine can reach ${apiUrl}.`
    }),
    onSuccess: ({ html_url, installations_count: installations, name }): Checked => ({
      state: installations === 0 ? "note" : "ok",
      detail: `GitHub App ${name} at ${new URL(apiUrl).host}, ` +
        (installations === 0
          ? `installed nowhere yet. Install it: ${html_url}/installations/new`
          : `${installations} ${installations === 1 ? "installation" : "installations"}`)
    })
  }))
}

interface Account {
  readonly version: string
  readonly account: { readonly login: string }
  readonly problems: ReadonlyArray<string>
}

/** The kinds as people write them. */
const KINDS = { gitlab: "GitLab", forgejo: "Forgejo", gitea: "Gitea" } as const

/** Checks each token of the host. `ask`: with the token of one path. */
const withTokens = <E extends { readonly message: string; readonly detail: string }>(
  host: Hosts.GitLabHost | Hosts.ForgejoHost,
  ask: (path: string) => Effect.Effect<Account, E>
): Effect.Effect<Checked> =>
  Effect.gen(function*() {
    const isWhole = host.tokenFile !== null || host.kind === "gitlab" && host.oauth !== null
    const paths = [...(isWhole ? [""] : []), ...host.tokens.map(({ path }) => path)]
    const found = yield* Effect.forEach(paths, (path) =>
      Effect.map(Effect.result(ask(path)), (result) => {
        const of = path === "" ? "" : `Token of ${path}: `
        if (result._tag === "Failure") return { isBroken: true, problem: `${of}${result.failure.detail}`, account: null }
        const { problems } = result.success
        return { isBroken: false, problem: problems.length === 0 ? null : `${of}${problems.join(" ")}`, account: result.success }
      }), { concurrency: 4 })
    const problems = found.flatMap(({ problem }) => problem ?? [])
    const known = found.find(({ account }) => account !== null)?.account
    const name = known == null
      ? `${KINDS[host.kind]} at ${host.url}.`
      : `${KINDS[host.kind]} ${known.version} at ${host.url}, as ${known.account.login}.`
    const checked: Checked = {
      state: found.some(({ isBroken }) => isBroken) ? "missing" : problems.length > 0 ? "note" : "ok",
      detail: [name, ...problems].join(" ")
    }
    return checked
  })

/**
 * Asks the host once. `isListed`: it is in the operator's list, not by settings of its own. `connections`: `null` without a database; then
 * a host that needs it is not asked.
 */
export const check = (
  host: Hosts.Host,
  isListed: boolean,
  connections: HostConnections["Service"] | null
): Effect.Effect<Checked> => {
  switch (host.kind) {
    case "local":
      return Effect.succeed({ state: "ok", detail: "repositories of this machine (slipway repos)" })
    case "github":
      return gitHub(host, isListed)
    case "gitlab":
      if (host.oauth !== null && connections === null) {
        return Effect.succeed({ state: "ok", detail: `GitLab at ${host.url}, as an OAuth application: slipway hosts check asks it.` })
      }
      return withTokens(host, (path) => {
        const token = tokenFor(host, connections)
        return GitLabApi.account({ url: host.url, token: () => token(path), groups: host.groups }, path)
      })
    case "forgejo":
    case "gitea":
      return withTokens(host, (path) => ForgejoApi.account({ url: host.url, token: () => tokenFor(host, null)(path) }))
  }
}
