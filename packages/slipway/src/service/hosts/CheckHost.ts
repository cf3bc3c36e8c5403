/** Whether a source host answers, and accepts the credentials of the service. */
import type { HostPath } from "@slipway/domain/source/schema/RepositoryAlias"
import * as GitHubApi from "@slipway/github/GitHubApi"
import { Effect } from "effect"
import { app as gitHubSettings, both } from "../../settings/GitHub.ts"
import * as Hosts from "../../settings/SourceHosts.ts"
import { privateKey } from "./SourceHosts.ts"

/** `note`: it works, with a warning. `missing`: it does not. */
export interface Checked {
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

/** Asks the host once. `isListed`: it is in the operator's list, not by settings of its own. */
export const check = (host: Hosts.Host, isListed: boolean): Effect.Effect<Checked> => {
  switch (host.kind) {
    case "local":
      return Effect.succeed({ state: "ok", detail: "repositories of this machine (slipway repos)" })
    case "github":
      return gitHub(host, isListed)
  }
}
