"""Dependency manifests and lock files of the usual ecosystems, as their tools document them."""

from gitlab_nightshift.policy.path_patterns import read_groups

DEPENDENCY_GROUPS = read_groups(
    """
    npm: package.json package-lock.json npm-shrinkwrap.json
    Yarn, pnpm, Bun: yarn.lock pnpm-lock.yaml pnpm-workspace.yaml bun.lock bun.lockb
    Deno, JSR, Bower: deno.json deno.jsonc deno.lock jsr.json bower.json
    Python, projects: pyproject.toml setup.py setup.cfg
    pip: requirements*.txt requirements*.in -> requirements-dev.txt requirements.in
    pip, pinned: requirements*.lock constraints*.txt -> requirements.lock constraints.txt
    pip, a folder: **/requirements/*.txt -> requirements/dev.txt
    pip-tools, a folder: **/requirements/*.in -> requirements/dev.in
    Pipenv, Poetry, PDM, uv: Pipfile Pipfile.lock poetry.lock pdm.lock uv.lock
    PEP 751: pylock*.toml -> pylock.dev.toml
    Conda, pixi: environment.yml environment.yaml conda-lock.yml pixi.toml pixi.lock
    Cargo: Cargo.toml Cargo.lock
    Go: go.mod go.sum go.work go.work.sum
    Maven, Ivy: pom.xml maven-wrapper.properties ivy.xml
    Gradle: build.gradle build.gradle.kts settings.gradle settings.gradle.kts libs.versions.toml
    Gradle, locks: verification-metadata.xml gradle-wrapper.properties *.lockfile -> gradle.lockfile
    sbt: build.sbt **/project/*.sbt -> project/plugins.sbt
    sbt, in project: **/project/build.properties **/project/Dependencies.scala
    Mill, Clojure: build.sc build.mill deps.edn project.clj
    Ruby: Gemfile Gemfile.lock gems.rb gems.locked *.gemspec -> shop.gemspec
    Composer: composer.json composer.lock
    .NET, projects: *.csproj *.fsproj *.vbproj -> Shop.csproj Shop.fsproj Shop.vbproj
    NuGet: packages.config packages.lock.json Directory.Packages.props
    .NET: Directory.Build.props global.json
    Paket: paket.dependencies paket.lock
    Elixir, Erlang: mix.exs mix.lock rebar.config rebar.lock
    Dart: pubspec.yaml pubspec.lock
    Swift, Carthage: Package.swift Package.resolved Cartfile Cartfile.resolved
    CocoaPods: Podfile Podfile.lock *.podspec -> Shop.podspec
    Haskell: cabal.project cabal.project.freeze stack.yaml stack.yaml.lock *.cabal -> shop.cabal
    OCaml: dune-project *.opam -> shop.opam
    R: renv.lock DESCRIPTION
    Julia: Project.toml Manifest.toml
    Perl: cpanfile cpanfile.snapshot
    Crystal: shard.yml shard.lock
    Conan, vcpkg: conanfile.txt conanfile.py conan.lock vcpkg.json
    Bazel: MODULE.bazel MODULE.bazel.lock WORKSPACE WORKSPACE.bazel
    Nix: flake.nix flake.lock
    Terraform: .terraform.lock.hcl
    Helm: Chart.yaml Chart.lock
    git: .gitmodules
    """
)
DEPENDENCY_FILES = tuple(pattern for group in DEPENDENCY_GROUPS for pattern in group.patterns)
"""A night must not change these."""
