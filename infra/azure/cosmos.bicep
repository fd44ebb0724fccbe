// The Azure side of a deployment: account, database, container.
//
//   az deployment group create --resource-group my-group --template-file infra/azure/cosmos.bicep --parameters accountName=my-account
//
// container.json is the definition that the code creates and verifies (`cargo run -p provision -- container` prints it). cosmos.json is
// this file as an ARM template, for use without Bicep. Tests compare all three (`cargo test -p tests --test deployment cosmos`).

@description('Name of the account. Its URI becomes https://NAME.documents.azure.com, so the name must be unused in all of Azure.')
@minLength(3)
@maxLength(44)
param accountName string

@description('Region of the account. Choose one close to the functions: each step of a workflow waits for the store.')
param location string = resourceGroup().location

@description('Name of the database: CosmosDatabase of infra/aws/template.yaml.')
@minLength(1)
@maxLength(255)
param databaseName string = 'duroxide'

@description('Name of the container: CosmosContainer of infra/aws/template.yaml.')
@minLength(1)
@maxLength(255)
param containerName string = 'workflows'

@description('serverless is billed per request; autoscale per hour, at least a tenth of its maximum.')
@allowed([
  'serverless'
  'autoscale'
])
param capacity string = 'serverless'

@description('Maximum request units per second of an autoscale container, in steps of 1000.')
@minValue(1000)
@maxValue(1000000)
param autoscaleMaxThroughput int = 4000

@description('Whether the account is reachable from the internet. Disabled needs a private endpoint, and functions in a VPC that reaches it.')
@allowed([
  'Enabled'
  'Disabled'
])
param publicNetworkAccess string = 'Enabled'

@description('Addresses and CIDR ranges that may connect, such as the NAT gateways of the functions. Empty: every address may connect, with a token or the key.')
param allowedIpAddresses array = []

@description('How far back the account can be restored.')
@allowed([
  'Continuous7Days'
  'Continuous30Days'
])
param backupTier string = 'Continuous30Days'

@description('Object ids of the principals that may read and write the documents: the service principal of the application that the functions use, and people who verify or operate.')
param dataContributors array = []

@description('Whether the account refuses its keys, so that only the principals of dataContributors have access.')
param disableLocalAuth bool = false

@description('Resource id of the subnet, in the region of the account, for a private endpoint of the account. Empty: none.')
param privateEndpointSubnetId string = ''

@description('Resource id of the private DNS zone privatelink.documents.azure.com, in which the private endpoint registers the account. Empty: register it yourself.')
param privateDnsZoneId string = ''

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
  // checkov:skip=CKV_AZURE_99:functions on AWS connect over the internet, with TLS and a token or the key; publicNetworkAccess and allowedIpAddresses restrict it
  // checkov:skip=CKV_AZURE_101:functions on AWS connect over the internet, with TLS and a token or the key; publicNetworkAccess and allowedIpAddresses restrict it
  // checkov:skip=CKV_AZURE_140:the parameter disableLocalAuth decides; a deployment with the account's key needs it
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
    // The key may only read and write documents; databases and containers are created here, or by an Azure role.
    disableKeyBasedMetadataWriteAccess: true
    disableLocalAuth: disableLocalAuth
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

// Cosmos DB Built-in Data Contributor: documents of this container, and its definition to read. Nothing else of the account.
// One after the other: the account takes one change at a time.
@batchSize(1)
resource contributors 'Microsoft.DocumentDB/databaseAccounts/sqlRoleAssignments@2024-11-15' = [for principal in dataContributors: {
  parent: account
  name: guid(container.id, principal)
  properties: {
    principalId: principal
    roleDefinitionId: '${account.id}/sqlRoleDefinitions/00000000-0000-0000-0000-000000000002'
    scope: '${account.id}/dbs/${databaseName}/colls/${containerName}'
  }
}]

// Addresses of the account inside a virtual network; docs/deployment.md says how functions on AWS reach it.
resource privateEndpoint 'Microsoft.Network/privateEndpoints@2024-05-01' = if (privateEndpointSubnetId != '') {
  name: '${accountName}-cosmos'
  location: location
  // The account takes one change at a time.
  dependsOn: [
    container
    contributors
  ]
  properties: {
    subnet: {
      id: privateEndpointSubnetId
    }
    privateLinkServiceConnections: [
      {
        name: '${accountName}-cosmos'
        properties: {
          privateLinkServiceId: account.id
          groupIds: [
            'Sql'
          ]
        }
      }
    ]
  }
}

resource privateName 'Microsoft.Network/privateEndpoints/privateDnsZoneGroups@2024-05-01' = if ((privateEndpointSubnetId != '') && (privateDnsZoneId != '')) {
  parent: privateEndpoint
  name: 'default'
  properties: {
    privateDnsZoneConfigs: [
      {
        name: 'cosmos'
        properties: {
          privateDnsZoneId: privateDnsZoneId
        }
      }
    ]
  }
}

@description('CosmosEndpoint of infra/aws/template.yaml.')
output endpoint string = account.properties.documentEndpoint

@description('Name of the account, for az cosmosdb keys list.')
output accountName string = account.name
