// The Azure side of a deployment: account, database, container.
//
//   az deployment group create --resource-group my-group --template-file infra/azure/cosmos.bicep --parameters accountName=my-account
//
// container.json is what the code itself makes and verifies (`cargo run -p provision -- container` prints it); cosmos.json is this
// file as an ARM template, for whom has no Bicep. The tests compare all three (`cargo test -p tests --test infra cosmos`).

@description('The name of the account: it becomes https://NAME.documents.azure.com, and must be free in all of Azure.')
@minLength(3)
@maxLength(44)
param accountName string

@description('Where the account is. Near the functions: each step of a workflow waits for it.')
param location string = resourceGroup().location

@description('The name of the database: CosmosDatabase of infra/aws/template.yaml.')
@minLength(1)
@maxLength(255)
param databaseName string = 'duroxide'

@description('The name of the container: CosmosContainer of infra/aws/template.yaml.')
@minLength(1)
@maxLength(255)
param containerName string = 'workflows'

@description('serverless is paid by request; autoscale is paid by the hour, from a tenth of its most.')
@allowed([
  'serverless'
  'autoscale'
])
param capacity string = 'serverless'

@description('The most request units per second of an autoscale container, in steps of 1000.')
@minValue(1000)
@maxValue(1000000)
param autoscaleMaxThroughput int = 4000

@description('Whether the account is reached from the internet. Disabled needs a private endpoint, and functions in a VPC that reaches it.')
@allowed([
  'Enabled'
  'Disabled'
])
param publicNetworkAccess string = 'Enabled'

@description('Addresses and CIDR ranges that may connect, such as the NAT gateways of the functions; none lets all connect, with the key.')
param allowedIpAddresses array = []

@description('How far back the store can be restored to.')
@allowed([
  'Continuous7Days'
  'Continuous30Days'
])
param backupTier string = 'Continuous30Days'

var definition = loadJsonContent('container.json')
var capabilities = (capacity == 'serverless') ? [
  {
    name: 'EnableServerless'
  }
] : []
var options = (capacity == 'serverless') ? {} : {
  autoscaleSettings: {
    maxThroughput: autoscaleMaxThroughput
  }
}

resource account 'Microsoft.DocumentDB/databaseAccounts@2024-11-15' = {
  // checkov:skip=CKV_AZURE_99:functions on AWS come over the internet, with TLS and the key; publicNetworkAccess and allowedIpAddresses restrict it
  // checkov:skip=CKV_AZURE_101:functions on AWS come over the internet, with TLS and the key; publicNetworkAccess and allowedIpAddresses restrict it
  // checkov:skip=CKV_AZURE_140:the functions are on AWS, where there is no identity of Azure's: they sign with the account's key
  name: accountName
  location: location
  kind: 'GlobalDocumentDB'
  properties: {
    databaseAccountOfferType: 'Standard'
    consistencyPolicy: {
      defaultConsistencyLevel: 'Session'
    }
    locations: [
      {
        locationName: location
        failoverPriority: 0
        isZoneRedundant: false
      }
    ]
    capabilities: capabilities
    backupPolicy: {
      type: 'Continuous'
      continuousModeProperties: {
        tier: backupTier
      }
    }
    minimalTlsVersion: 'Tls12'
    publicNetworkAccess: publicNetworkAccess
    ipRules: [for address in allowedIpAddresses: {
      ipAddressOrRange: address
    }]
    isVirtualNetworkFilterEnabled: false
    // The key reads and writes documents; databases and containers are made here, or by whom Azure itself lets.
    disableKeyBasedMetadataWriteAccess: true
    disableLocalAuth: false
  }
}

resource database 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases@2024-11-15' = {
  parent: account
  name: databaseName
  properties: {
    resource: {
      id: databaseName
    }
  }
}

resource container 'Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers@2024-11-15' = {
  parent: database
  name: containerName
  properties: {
    resource: union(definition, {
      id: containerName
    })
    options: options
  }
}

@description('CosmosEndpoint of infra/aws/template.yaml.')
output endpoint string = account.properties.documentEndpoint

@description('The account, for az cosmosdb keys list.')
output accountName string = account.name
