import * as FollowedRepositoriesMemory from "@slipway/domain/memory/source/FollowedRepositoriesMemory"
import { suite } from "@slipway/testing/contracts/source/FollowedRepositoriesContract"

export const suites = () => [suite("memory", FollowedRepositoriesMemory.layer)]
