/** The settings that owners chose for a grant's repositories. Not part of the public interface and its document. */
import { RepoName } from "@slipway/domain/source/schema/RepoRef"
import { RepoSettings } from "@slipway/domain/source/schema/RepoSettings"
import { Timestamp } from "@slipway/domain/time/Timestamp"
import { Schema } from "effect"
import { HttpApiEndpoint, HttpApiGroup, OpenApi } from "effect/http-api"
import { GrantNotFound, TooManyRepositorySettings } from "../shared/Errors.ts"
import { Authenticated, JsonBody } from "../shared/Middleware.ts"
import { Area, NeededScope } from "../shared/Routing.ts"

const Listed = Schema.Struct({ repo: RepoName, settings: RepoSettings, setAt: Timestamp }).annotate({ identifier: "RepositorySettings" })

/** Reads and replaces settings. Needs the scope `secrets`, which only owners may use. */
export class RepositorySettingsApi extends HttpApiGroup.make("repositorySettings", { topLevel: true })
  .add(
    HttpApiEndpoint.get("listRepositorySettings", "/", {
      success: Schema.Struct({ data: Schema.Array(Listed) }).annotate({ identifier: "RepositorySettingsList" })
    }).annotateMerge(OpenApi.annotations({
      summary: "List settings of repositories",
      description:
        "Those that were chosen, in order of repository. Others have no labels, reviewers or feedback, and no use of `.mcp.json`."
    })),
    HttpApiEndpoint.put("setRepositorySettings", "/", {
      query: { repo: RepoName },
      payload: RepoSettings,
      success: RepoSettings,
      error: [GrantNotFound, TooManyRepositorySettings]
    }).middleware(JsonBody).annotateMerge(OpenApi.annotations({
      summary: "Set the settings of a repository",
      description: "Replaces all of them. Labels and reviewers are those of pull requests that are opened from now on."
    }))
  )
  .prefix("/api/internal/v1/repository-settings")
  .middleware(Authenticated)
  .annotate(NeededScope, "secrets")
  .annotate(Area, "internal")
  .annotateMerge(
    OpenApi.annotations({
      title: "Settings of repositories",
      description: "Labels, reviewers and feedback of pull requests, and the use of `.mcp.json`. Need the scope `secrets`."
    })
  )
{}
