#!/usr/bin/env bash
# Deploys to AWS: builds the archives, creates or verifies the container, deploys the stack.
#
#   export COSMOS_ENDPOINT=https://my-account.documents.azure.com
#   export COSMOS_TOKEN=$(az account get-access-token --resource https://cosmos.azure.com --query accessToken --output tsv)
#   infra/aws/deploy.sh STACK CosmosTenantId=... CosmosClientId=... [Parameter=Value ...]
#
# STACK is the name of the CloudFormation stack; the parameters are those of infra/aws/template.yaml. The environment sets
# COSMOS_ENDPOINT; COSMOS_TOKEN, which verifies the container, or COSMOS_KEY, which also creates it; COSMOS_DATABASE and
# COSMOS_CONTAINER (default: duroxide, workflows); COSMOS_THROUGHPUT of a container that is created now (serverless, autoscale:4000 or
# manual:400); and AWS's own variables. Functions use the application CosmosClientId, or the secret CosmosKeySecretArn=arn:..., or, with
# neither, a secret that the stack creates from COSMOS_KEY. An empty value (CosmosClientId=) resets a parameter; one that is not given
# keeps its last value.
set -euo pipefail

fail() { echo "error: $*" >&2; exit 1; }

[[ $# -ge 1 && $1 != -* && $1 != *=* ]] || fail "the stack's name is missing: infra/aws/deploy.sh STACK [Parameter=Value ...]"
stack=$1; shift
# Function names start with it, and Lambda allows 64 characters.
[[ ${#stack} -le 50 ]] || fail "the stack's name has more than 50 characters: choose a shorter one"
[[ -n ${COSMOS_ENDPOINT:-} ]] || fail 'COSMOS_ENDPOINT is not set: set it to the URI of the account'
[[ -n ${COSMOS_KEY:-} || -n ${COSMOS_TOKEN:-} ]] || fail 'COSMOS_KEY is not set and COSMOS_TOKEN is not set: set COSMOS_TOKEN to a token, which verifies the container, or COSMOS_KEY to the key of the account, which also creates it'
[[ -z ${COSMOS_KEY:-} || -z ${COSMOS_TOKEN:-} ]] || fail 'COSMOS_KEY is set and COSMOS_TOKEN is set: keep one'
for tool in cargo cargo-lambda sam aws; do
  command -v "$tool" >/dev/null || fail "$tool is not installed: see the prerequisites in docs/deployment.md"
done

given=()
unset architecture secret tenant client client_secret
for parameter in "$@"; do
  case $parameter in
    CosmosEndpoint=* | CosmosDatabase=* | CosmosContainer=* | CosmosKey=*) fail "${parameter%%=*} is taken from the environment: see the top of this script" ;;
    Architecture=*) architecture=${parameter#*=} ;;
    CosmosKeySecretArn=*) secret=${parameter#*=} ;;
    CosmosTenantId=*) tenant=${parameter#*=} ;;
    CosmosClientId=*) client=${parameter#*=} ;;
    CosmosClientSecretArn=*) client_secret=${parameter#*=} ;;
    [A-Z]*=*) given+=("$parameter") ;;
    *) fail "$parameter is not of the form Parameter=Value" ;;
  esac
done

# The AWS CLI and sam must use the same region; sam reads AWS_DEFAULT_REGION only.
if [[ -n ${AWS_REGION:-} ]]; then export AWS_DEFAULT_REGION=$AWS_REGION; fi
# sam repeats the last value of each parameter that is not given. Parameters that must agree with an archive or with each other
# are therefore always given, by default with their last value.
if ! deployed=$(aws cloudformation describe-stacks --stack-name "$stack" --output text \
  --query "Stacks[0].[[['StackStatus', StackStatus]], Parameters[].[ParameterKey, ParameterValue]][]" 2>&1); then
  [[ $deployed == *'does not exist'* ]] || fail "the stack '$stack' cannot be described: $deployed"
  deployed=
fi
last() { awk -F '\t' -v name="$1" '$1 == name { print $2 }' <<< "$deployed"; }
# Neither state is a deployment: the first was never started, the second is what a failed first creation leaves.
status=$(last StackStatus)
if [[ $status == REVIEW_IN_PROGRESS || $status == ROLLBACK_COMPLETE ]]; then deployed=; fi
architecture=${architecture-$(last Architecture)}
architecture=${architecture:-arm64}
[[ $architecture == arm64 || $architecture == x86_64 ]] || fail "Architecture must be arm64 or x86_64"
# A way that is given replaces the last one: an application, or a secret with the key.
if [[ -n ${client:-} ]]; then secret=${secret-}; fi
if [[ -n ${secret:-} ]]; then client=${client-} tenant=${tenant-} client_secret=${client_secret-}; fi
secret=${secret-$(last CosmosKeySecretArn)}
client=${client-$(last CosmosClientId)}
if [[ -n $client ]]; then
  tenant=${tenant-$(last CosmosTenantId)}
  client_secret=${client_secret-$(last CosmosClientSecretArn)}
fi
tenant=${tenant-}
client_secret=${client_secret-}
key=
if [[ -z $secret && -z $client ]]; then
  key=${COSMOS_KEY:-}
  [[ -n $key ]] || fail 'the functions have no access to the account: give CosmosTenantId and CosmosClientId, or CosmosKeySecretArn, or set COSMOS_KEY instead of COSMOS_TOKEN'
fi
COSMOS_DATABASE=${COSMOS_DATABASE:-$(last CosmosDatabase)}
COSMOS_CONTAINER=${COSMOS_CONTAINER:-$(last CosmosContainer)}
export COSMOS_DATABASE=${COSMOS_DATABASE:-duroxide} COSMOS_CONTAINER=${COSMOS_CONTAINER:-workflows}
parameters=(
  "CosmosEndpoint=$COSMOS_ENDPOINT" "CosmosDatabase=$COSMOS_DATABASE" "CosmosContainer=$COSMOS_CONTAINER"
  "CosmosTenantId=$tenant" "CosmosClientId=$client" "CosmosClientSecretArn=$client_secret"
  "CosmosKey=$key" "CosmosKeySecretArn=$secret" "Architecture=$architecture" ${given[@]+"${given[@]}"}
)
for parameter in "${parameters[@]}"; do
  [[ $parameter != *[\'\"\\]* && $parameter != *$'\n'* ]] || fail "${parameter%%=*} contains a quote, a backslash or a line break"
done

cd "$(dirname "$0")/../.."
# Arguments are visible to every user of the machine, so the key is passed in a file that only its owner can read.
settings=$(mktemp -d)
trap 'rm -rf "$settings"' EXIT
chmod 700 "$settings"

echo '== archives'
# The template expects the archives in target/lambda, whatever CARGO_TARGET_DIR is.
cargo lambda build --release --locked "--${architecture/x86_64/x86-64}" --output-format zip --lambda-dir target/lambda \
  --package orchestrator --package worker --package maintenance --package api
echo '== container'
if [[ -n ${COSMOS_KEY:-} ]]; then
  cargo run --quiet --locked --package provision -- ensure --throughput "${COSMOS_THROUGHPUT:-serverless}"
else
  # A token cannot create a container: infra/azure/cosmos.bicep does.
  cargo run --quiet --locked --package provision -- verify
fi
echo '== stack'
{
  echo 'version = 0.1'
  echo '[default.deploy.parameters]'
  printf "parameter_overrides = '"
  for parameter in "${parameters[@]}"; do printf '%s="%s" ' "${parameter%%=*}" "${parameter#*=}"; done
  printf "'\n"
} > "$settings/samconfig.toml"
# A stack in this state is empty and can only be deleted.
if [[ $status == ROLLBACK_COMPLETE ]]; then
  aws cloudformation delete-stack --stack-name "$stack"
  aws cloudformation wait stack-delete-complete --stack-name "$stack"
fi
sam deploy --template-file "$PWD/infra/aws/template.yaml" --config-file "$settings/samconfig.toml" --stack-name "$stack" \
  --resolve-s3 --capabilities CAPABILITY_IAM --no-confirm-changeset --no-fail-on-empty-changeset
